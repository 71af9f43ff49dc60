"""Where a molecule's centre is, in the space of flows on Cartesian coordinates: it moves there as a Gaussian."""

import math
from typing import Literal

import torch
from torch import Tensor

__all__ = ["Correction", "centre_energy"]

Correction = Literal["gaussian", "chi"]
"""Which law of the centre x̄ a weight takes out: the Gaussian it has, or the χ₃ law of |x̄|."""


def centre_energy(centre: Tensor, n_atoms: int, sigma: float, correction: Correction = "gaussian") -> Tensor:
    r"""Return what the centre's place adds to the energy, ``(..., 3) -> (...)``.

    With x = x° + t and t ~ N(0, σ²) the volume is $dx = N^{3/2} dx^\circ dt$, so that

    $$v(\bar x) = \frac{|\bar x|^2}{2\sigma^2} + \tfrac32\log 2\pi\sigma^2 + \tfrac32\log N, \qquad
      \int e^{-v}\, dt = N^{-3/2}$$

    and ∫ exp(−u(x°) − v(x̄)) dx is Z over centred coordinates X₀ (`boltzkit.coordinates.rigid_body_log_volume` leads to
    that of internal coordinates). The χ₃ correction of Tan et al. (2025) takes the law
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
