"""The mixture of Gaussians on all corners of a hypercube, as a product over dimensions."""

import math
from typing import final

import torch
from torch import Tensor

from boltzkit.energy.target import Target
from boltzkit.energy.validation import at_least, positive

__all__ = ["HypercubeMixture"]


@final
class HypercubeMixture(Target):
    r"""Equally weighted isotropic Gaussians on the 2^d corners {−1, +1}^d, normalised, so that log Z = 0.

    The mixture over all corners is a product of two-component mixtures, so an energy costs d terms, not 2^d:

    $$u(x) = -\sum_{i=1}^d \log \tfrac12 \left[\mathcal N(x_i \mid -1, \sigma^2)
             + \mathcal N(x_i \mid 1, \sigma^2)\right]$$

    With d = 2 and σ = 0.5 this is the paper's target (entropy 2.7170 nats).

    Args:
        dim: the dimension d.
        scale: the common standard deviation σ.
    """

    name = "gmm"

    def __init__(self, dim: int = 2, scale: float = 0.5) -> None:
        self.event_shape = torch.Size([at_least(dim, 1, self.name, "a dim")])
        self.scale = positive(scale, self.name, "scale")

    @property
    def log_z(self) -> float:
        """Zero: the mixture is normalised."""
        return 0.0

    def sample(self, n: int, generator: torch.Generator) -> Tensor:
        """Pick a side of every axis for each sample, then add Gaussian noise."""
        shape, device = (n, *self.event_shape), generator.device
        side = 2 * torch.randint(2, shape, generator=generator, device=device) - 1
        noise = torch.randn(shape, generator=generator, device=device, dtype=torch.float64)
        return side + self.scale * noise

    def _energy(self, x: Tensor) -> Tensor:
        below, above = (-((x - side) ** 2) / (2 * self.scale**2) for side in (-1, 1))
        log_normaliser = math.log(2 * self.scale * math.sqrt(2 * math.pi))
        return (log_normaliser - torch.logaddexp(below, above)).sum(-1)
