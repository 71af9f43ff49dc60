"""A molecule's energy in the space of flows on Cartesian coordinates, where its centre moves as a Gaussian."""

import math
from typing import Literal, final

import torch
from torch import Tensor

from boltzkit.energy.target import Target
from boltzkit.energy.validation import positive
from boltzkit.errors import UserError

__all__ = ["AugmentedEnergy", "Correction", "centre_energy"]

Correction = Literal["gaussian", "chi"]
"""Which law of the centre x̄ a weight takes out: the Gaussian it has, or the χ₃ law of |x̄|."""


def centre_energy(centre: Tensor, n_atoms: int, sigma: float, correction: Correction = "gaussian") -> Tensor:
    r"""Return what the centre's place adds to the energy, ``(..., 3) -> (...)``.

    With x = x° + t and t ~ N(0, σ²) the volume is $dx = N^{3/2} dx^\circ dt$, so that

    $$v(\bar x) = \frac{|\bar x|^2}{2\sigma^2} + \tfrac32\log 2\pi\sigma^2 + \tfrac32\log N, \qquad
      \int e^{-v}\, dt = N^{-3/2}$$

    and ∫ exp(−u(x°) − v(x̄)) dx is Z over centred coordinates X₀. The χ₃ correction of Tan et al. (2025) takes the law
    of the *distance* |x̄| for that of the place: $v - \log(|\bar x|^2/3\sigma^2)$, with its constant such that Z stays
    the same. It is wrong by that factor, which costs two fifths of the effective samples of a perfect model.

    Args:
        centre: the mean x̄ of all atoms, nm.
        n_atoms: N.
        sigma: nm: standard deviation of the centre in each direction.
        correction: ``gaussian``, or ``chi`` to compare with published numbers.
    """
    squared = (centre * centre).sum(-1) / sigma**2
    energy = 0.5 * squared + 1.5 * math.log(2 * math.pi * sigma**2 * n_atoms)
    return energy - torch.log(squared / 3) if correction == "chi" else energy


@final
class AugmentedEnergy(Target):
    r"""The target of flows on Cartesian coordinates, normalised like the centred one.

    $$u_\mathrm{aug}(x) = u(x - \bar x) + v(\bar x), \qquad
      p_\mathrm{aug}(x) = N^{-3/2} p(x^\circ) \, \mathcal N(\bar x \mid 0, \sigma^2)$$

    with v from `centre_energy`. Labels, weights, dispersion and ensembles need no other change; weights against it are
    the paper's importance weights, and log Z is that over centred coordinates X₀
    (`boltzkit.coordinates.rigid_body_log_volume` leads to that of internal coordinates). An evaluation counts here and
    with the target inside.

    Args:
        target: the energy u of positions ``(atoms, 3)`` nm.
        sigma: nm: standard deviation of the centre in each direction.
        correction: ``gaussian``; ``chi`` for evaluation only, to compare with published numbers.
    """

    def __init__(self, target: Target, sigma: float, correction: Correction = "gaussian") -> None:
        if len(target.event_shape) != 2 or target.event_shape[-1] != 3:
            raise UserError(
                f"{target.name} takes configurations of shape {tuple(target.event_shape)}: only positions of atoms, "
                "(atoms, 3), can be moved about in space."
            )
        self.target, self.name, self.event_shape = target, target.name, target.event_shape
        self.sigma = positive(sigma, target.name, "standard deviation of its centre")
        self.correction: Correction = correction

    def _energy(self, x: Tensor) -> Tensor:
        centre = x.mean(-2)
        inner = self.target(x - centre.unsqueeze(-2))
        return inner + centre_energy(centre, self.event_shape[0], self.sigma, self.correction).to(inner)
