"""A small flow and a target with known answers."""

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from boltzkit.energy.target import Target
from boltzkit.ensemble import Ensemble
from boltzkit.flow.flow import Flow
from boltzkit.flow.realnvp import RealNVPConfig, build_realnvp
from boltzkit.randomness import generator

GaussianEnsemble = Callable[..., Ensemble]


class Harmonic(Target):
    """u(x) = |x|²/2s² in two dimensions, with a wall of NaN where the first coordinate exceeds an edge."""

    name = "harmonic"
    event_shape = torch.Size([2])

    def __init__(self, scale: float, edge: float = math.inf) -> None:
        self.scale, self.edge = scale, edge

    def _energy(self, x: Tensor) -> Tensor:
        return (0.5 * (x / self.scale) ** 2).sum(-1).masked_fill(x[..., 0] > self.edge, math.nan)


@pytest.fixture
def flow() -> Flow:
    """Return an untrained RealNVP, which is the standard normal in two dimensions."""
    return build_realnvp(RealNVPConfig(layers=2, hidden=(8, 8)), dim=2, seeds=(0,), batched=False)


@pytest.fixture
def harmonic() -> Callable[..., Harmonic]:
    """Return a maker of harmonic targets."""
    return Harmonic


@pytest.fixture
def gaussian_ensemble() -> GaussianEnsemble:
    """Return a maker of one-dimensional ensembles: q = N(0, 1) against exp(−x²/2s²)."""

    def make(s: float, n: int, seed: int = 0) -> Ensemble:
        x = torch.randn(n, generator=generator(seed, "test"), dtype=torch.float64)
        log_prob = -0.5 * x**2 - 0.5 * math.log(2 * math.pi)
        return Ensemble.from_samples(x, 0.5 * (x / s) ** 2, log_prob, n, "gaussian")

    return make
