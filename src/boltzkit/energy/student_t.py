"""Mixtures of multivariate Student-t components: tails that no Gaussian proposal covers."""

import math
from typing import Self, final

import torch
from torch import Tensor

from boltzkit.energy.target import Target
from boltzkit.energy.validation import at_least, positive

__all__ = ["StudentTMixture"]


@final
class StudentTMixture(Target):
    r"""An equally weighted mixture of isotropic multivariate Student-t components, normalised: log Z = 0.

    $$p(x) = \frac1K \sum_k \frac{\Gamma(\frac{\nu+d}2)}{\Gamma(\frac\nu2)\,(\nu\pi\sigma^2)^{d/2}}
      \left[1 + \frac{|x-\mu_k|^2}{\nu\sigma^2}\right]^{-(\nu+d)/2}$$

    Args:
        means: component centres μ, ``(components, dim)``.
        scale: the common scale σ; the variance of a component is σ²ν/(ν−2) where ν > 2.
        degrees: degrees of freedom ν; moments of order ν and above do not exist.
    """

    name = "student-t"

    def __init__(self, means: Tensor, scale: float = 0.5, degrees: int = 3) -> None:
        self.means = means.to(torch.float64)
        self.scale = positive(scale, self.name, "scale")
        self.degrees = at_least(degrees, 1, self.name, "degrees of freedom")
        self.event_shape = torch.Size([means.shape[1]])

    @classmethod
    def cross(cls, dim: int = 2, scale: float = 0.5, degrees: int = 3, radius: float = 3.0) -> Self:
        """Return 2·dim components, one on each side of every axis at the given radius."""
        axes = radius * torch.eye(at_least(dim, 1, cls.name, "a dim"), dtype=torch.float64)
        return cls(torch.cat([axes, -axes]), scale, degrees)

    @property
    def log_z(self) -> float:
        """Zero: the mixture is normalised."""
        return 0.0

    def sample(self, n: int, generator: torch.Generator) -> Tensor:
        """Pick a component, then divide a Gaussian by the root of a χ² (of squared Gaussians) over ν."""
        device = generator.device
        component = torch.randint(len(self.means), (n,), generator=generator, device=device)
        dim = self.event_shape[0]
        normals = torch.randn(n, dim + self.degrees, generator=generator, device=device, dtype=torch.float64)
        gaussian, others = normals[:, :dim], normals[:, dim:]
        # One χ² for all dimensions: this is what makes the component isotropic, not a product.
        width = ((others**2).sum(-1, keepdim=True) / self.degrees).rsqrt()
        return self.means.to(device)[component] + self.scale * width * gaussian

    def _energy(self, x: Tensor) -> Tensor:
        squared = ((x.unsqueeze(-2) - self.means.to(x)) ** 2).sum(-1)
        nu, dim = self.degrees, self.event_shape[0]
        log_normaliser = (
            math.log(len(self.means))
            + math.lgamma(nu / 2)
            - math.lgamma((nu + dim) / 2)
            + 0.5 * dim * math.log(nu * math.pi * self.scale**2)
        )
        log_kernel = -0.5 * (nu + dim) * torch.log1p(squared / (nu * self.scale**2))
        return log_normaliser - torch.logsumexp(log_kernel, dim=-1)
