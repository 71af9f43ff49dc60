"""What physics knows before any learning: stiff coordinates fluctuate about the minimum, torsions turn freely.

Bonds, angles and the torsions that hold an atom to its siblings get the normal distribution of the energy to second
order around the reference structure; torsions about bonds are uniform. A flow that starts from there has no atom out
of place, only atoms that overlap.
"""

from copy import deepcopy
from typing import NamedTuple

import torch
from torch import Tensor

from boltzkit.coordinates import InternalCoordinates
from boltzkit.energy import Target
from boltzkit.errors import UserError
from boltzkit.flow import Chain, Flow
from boltzkit.objective import counted
from boltzkit.ranks import spread_over_ranks

__all__ = ["HarmonicStart", "coordinates_of", "turning_dims"]

_SHIFT = 1e-4
"""Of a central difference, in units of the box."""
_WIDEST = 0.15
"""Largest standard deviation of a stiff coordinate, in units of the box."""


class HarmonicStart(NamedTuple):
    """Samples in the unit box of internal coordinates.

    Args:
        centre: the reference structure, ``(dim,)``.
        stiff: dims that fluctuate about it.
        factor: a square root of their covariance, ``(stiff, stiff)``.
    """

    centre: Tensor
    stiff: Tensor
    factor: Tensor

    @classmethod
    def of(
        cls, coordinates: InternalCoordinates, target: Target, positions: Tensor, temperature: float
    ) -> "HarmonicStart":
        """Expand the energy around a structure; costs two evaluations with gradient per dim.

        Args:
            coordinates: the box.
            target: the reduced energy.
            positions: the structure, ``(atoms, 3)`` nm.
            temperature: of the fluctuations, in units of the target's.
        """
        coordinates = deepcopy(coordinates).cpu()  # in double precision, which not every device has
        centre = coordinates.inverse(positions.double().unsqueeze(0))[0][0]
        shifts = _SHIFT * torch.eye(coordinates.dim, dtype=torch.float64)
        points = torch.cat([centre + shifts, centre - shifts])
        with counted(target):
            (slopes,) = spread_over_ranks(lambda y: (_slopes(coordinates, target, y),), points)
        hessian = (slopes[: coordinates.dim] - slopes[coordinates.dim :]) / (2 * _SHIFT)
        stiff = torch.tensor(sorted(set(range(coordinates.dim)) - set(turning_dims(coordinates))))
        block = 0.5 * (hessian + hessian.T)[stiff][:, stiff]
        stiffness, directions = torch.linalg.eigh(block)
        # Directions that are soft or unstable are bounded: they are left to training.
        width = (stiffness / temperature).clamp(min=_WIDEST**-2).rsqrt()
        return cls(centre, stiff, directions * width)

    def sample(self, n: int, generator: torch.Generator) -> Tensor:
        """Return points of the box, ``(n, dim)``; what would lie outside is set back to its middle."""
        y = torch.rand(n, len(self.centre), generator=generator, dtype=torch.float64)
        normal = torch.randn(n, len(self.stiff), generator=generator, dtype=torch.float64)
        moved = self.centre[self.stiff] + normal @ self.factor.T
        y[:, self.stiff] = torch.where((moved > 0) & (moved < 1), moved, self.centre[self.stiff])
        return y


def coordinates_of(flow: Flow) -> InternalCoordinates:
    """Return the internal coordinates in which a flow of a molecule ends."""
    last = flow.bijection.links[-1] if isinstance(flow.bijection, Chain) else flow.bijection
    if not isinstance(last, InternalCoordinates):
        raise UserError(
            "A harmonic start needs a molecule in internal coordinates: set annealing.pretraining=0."
        )
    return last


def turning_dims(coordinates: InternalCoordinates) -> list[int]:
    """Return the dims of torsions about bonds: those whose reference is not a sibling of the atom they place."""
    rows = coordinates.zmatrix.rows.tolist()
    bonds = {frozenset(row[:2]) for row in rows[1:]}
    first = coordinates.dim - len(rows[3:])
    return [
        first + place
        for place, (_, parent, _, reference) in enumerate(rows[3:])
        if frozenset((parent, reference)) not in bonds
    ]


def _slopes(coordinates: InternalCoordinates, target: Target, y: Tensor) -> Tensor:
    """Return the gradient of −log p̃ in the box, ``(n, dim)``."""
    leaf = y.detach().requires_grad_()
    with torch.enable_grad():
        x, log_det = coordinates.transform(leaf)
        (slope,) = torch.autograd.grad((target(x) - log_det).sum(), leaf)
    return slope
