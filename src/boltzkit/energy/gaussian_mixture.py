"""Gaussian mixtures with given means, among them the paper's four modes at (±1, ±1)."""

import math
from typing import final

import torch
from torch import Tensor

from boltzkit.energy.hypercube_mixture import HypercubeMixture
from boltzkit.energy.target import Target
from boltzkit.energy.validation import positive

__all__ = ["GaussianMixture"]


@final
class GaussianMixture(Target):
    r"""An equally weighted mixture of isotropic Gaussians, normalised, so that log Z = 0.

    $$u(x) = -\log \frac1K \sum_k \mathcal N(x \mid \mu_k, \sigma^2 I)$$

    Args:
        means: component means, ``(components, dim)``.
        scale: the common standard deviation σ.
    """

    name = "gmm"

    def __init__(self, means: Tensor, scale: float) -> None:
        self.means = means.to(torch.float64)
        self.scale = positive(scale, self.name, "scale")
        self.event_shape = torch.Size([means.shape[1]])

    @staticmethod
    def hypercube(dim: int = 2, scale: float = 0.5) -> HypercubeMixture:
        """Return 2^dim modes on the corners {−1, +1}^dim; dim = 2, scale = 0.5 is the paper's target.

        The energy is that of a mixture with these means, computed as a product, so that large dims work too.
        """
        return HypercubeMixture(dim, scale)

    @property
    def log_z(self) -> float:
        """Zero: the mixture is normalised."""
        return 0.0

    def sample(self, n: int, generator: torch.Generator) -> Tensor:
        """Pick a component for each sample, then add its Gaussian noise."""
        device = generator.device
        component = torch.randint(len(self.means), (n,), generator=generator, device=device)
        noise = torch.randn(n, *self.event_shape, generator=generator, device=device, dtype=torch.float64)
        return self.means.to(device)[component] + self.scale * noise

    def _energy(self, x: Tensor) -> Tensor:
        means = self.means.to(x)
        squared = ((x.unsqueeze(-2) - means) ** 2).sum(-1)
        dim = self.event_shape[0]
        log_normaliser = math.log(len(means)) + dim * math.log(self.scale * math.sqrt(2 * math.pi))
        return log_normaliser - torch.logsumexp(-squared / (2 * self.scale**2), dim=-1)
