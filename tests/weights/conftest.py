"""Weights with known answers: q = N(0, 1) against the unnormalised Gaussian exp(−x²/2s²)."""

import math
from collections.abc import Callable

import pytest
import torch

from boltzkit.randomness import generator
from boltzkit.weights import LogWeights

Gaussian = Callable[..., LogWeights]


@pytest.fixture
def gaussian() -> Gaussian:
    """Return a maker of weights; ESS = s√(2 − s²), log Z = log(s√2π), and k = 1 − 1/s² for s > 1."""

    def make(s: float, n: int, seed: int = 0, sign: float = 1.0) -> LogWeights:
        x = torch.randn(n, generator=generator(seed, "test"), dtype=torch.float64)
        log_prob = -0.5 * x**2 - 0.5 * math.log(2 * math.pi)
        return LogWeights.from_samples(sign * log_prob, sign * 0.5 * (x / s) ** 2)

    return make
