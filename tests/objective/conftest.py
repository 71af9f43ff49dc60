"""One-dimensional Gaussian flows with closed forms, and quadrature in place of samples."""

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from boltzkit.coordinates import Bijection
from boltzkit.flow import Flow, StandardNormal


class Affine(Bijection):
    """x = m + s z in every dim, with parameters (m, log s)."""

    def __init__(self, mean: float, scale: float) -> None:
        super().__init__()
        self.theta = nn.Parameter(torch.tensor([mean, math.log(scale)], dtype=torch.float64))

    def transform(self, z: Tensor) -> tuple[Tensor, Tensor]:
        x = self.theta[0] + self.theta[1].exp() * z
        return x, self.theta[1] * z.shape[-1] * torch.ones_like(z[..., 0])

    def inverse(self, x: Tensor) -> tuple[Tensor, Tensor]:
        z = (x - self.theta[0]) * torch.exp(-self.theta[1])
        return z, -self.theta[1] * x.shape[-1] * torch.ones_like(x[..., 0])


@pytest.fixture
def gaussian_flow() -> Callable[[float, float], Flow]:
    """Build the flow N(m, s²) whose parameters are ``flow.bijection.theta`` = (m, log s), in float64."""
    return lambda mean, scale: Flow(StandardNormal(1), Affine(mean, scale))


@pytest.fixture
def gauss_hermite() -> Callable[..., tuple[Tensor, Tensor]]:
    """Return nodes ``(n, 1)`` and weights ``(n,)``, exact for smooth functions over N(mean, scale²)."""

    def rule(mean: float = 0.0, scale: float = 1.0, n: int = 80) -> tuple[Tensor, Tensor]:
        nodes, weights = np.polynomial.hermite_e.hermegauss(n)
        return mean + scale * torch.tensor(nodes).unsqueeze(-1), torch.tensor(weights / weights.sum())

    return rule


@pytest.fixture
def gradient() -> Callable[[Tensor, Flow], Tensor]:
    """Return ∂loss/∂(m, log s) of a Gaussian flow."""
    return lambda loss, flow: torch.autograd.grad(loss, flow.bijection.theta)[0]
