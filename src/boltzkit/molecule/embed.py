"""Three-dimensional structures from distances and handedness, by distance geometry in four dimensions.

In four dimensions a centre of the wrong hand turns round without passing through itself and chains pass each
other; the fourth coordinate is then squeezed out.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import minimize
from torch import Tensor

from boltzkit.molecule.geometry import Geometry
from boltzkit.molecule.stereo import handedness
from boltzkit.molecule.torsions import Torsions
from boltzkit.randomness import generator

__all__ = ["Embedding"]

_MIN_HANDEDNESS = 0.6  # a regular tetrahedron has 0.77
_PER_RESIDUE = 0.35  # nm, the rise of an extended strand


@dataclass(frozen=True)
class Embedding:
    """What a structure has to fulfil.

    Attributes:
        geometry: known distances and room.
        centres: rows (centre, a, b, c) of positive handedness, ``(centres, 4)``.
        torsions: dihedral angles with their values.
        residues: the residue of each atom, ``(atoms,)``.
    """

    geometry: Geometry
    centres: Tensor
    torsions: Torsions
    residues: Tensor

    def structure(self, seed: int) -> Tensor:
        """Return coordinates ``(atoms, 3)`` nm, float64: a function of the seed alone."""
        n = len(self.residues)
        noise = torch.randn(n, 4, generator=generator(seed, "embedding"), dtype=torch.float64)
        x = 0.2 * noise
        x[:, 0] += _PER_RESIDUE * self.residues
        for weight in (0.0, 0.1, 10.0):
            x = _descend(partial(self._squeezed, weight=weight), x)
        # Turned one after the other into an extended chain, side chains cannot get tangled up any more.
        extended = self.torsions.turned(x[:, :3])
        return _descend(lambda y: self._violation(y) + 0.01 * self.torsions.off(y), extended)

    def _squeezed(self, x: Tensor, weight: float) -> Tensor:
        return self._violation(x) + weight * x[:, 3].square().sum()

    def _violation(self, x: Tensor) -> Tensor:
        """Σ (d − d₀)² over distances that are off, and the same for centres that are too flat or turned."""
        turned = (_MIN_HANDEDNESS - handedness(x[:, :3], self.centres)).relu()
        return 0.5 * self.geometry.shortfall(x).square().sum() + 0.1 * turned.square().sum()


def _descend(energy: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    def value_and_gradient(flat: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        leaf = torch.tensor(flat.reshape(x.shape), requires_grad=True)
        value = energy(leaf)
        (gradient,) = torch.autograd.grad(value, leaf)
        return float(value.detach()), gradient.numpy().ravel()

    options = {"maxiter": 300, "ftol": 1e-9, "gtol": 1e-3}
    result = minimize(value_and_gradient, x.numpy().ravel(), jac=True, method="L-BFGS-B", options=options)
    return torch.from_numpy(result.x.reshape(x.shape))
