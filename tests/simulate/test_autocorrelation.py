"""Integrated autocorrelation times against series whose time is known."""

import pytest
import torch
from torch import Tensor

from boltzkit.simulate import autocorrelation_time, effective_samples


def autoregressive(memory: float, walkers: int, frames: int) -> Tensor:
    noise = torch.randn(walkers, frames, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    series = torch.empty_like(noise)
    series[:, 0] = noise[:, 0]
    for t in range(1, frames):
        series[:, t] = memory * series[:, t - 1] + (1 - memory**2) ** 0.5 * noise[:, t]
    return series


@pytest.mark.parametrize("memory", [0.0, 0.5, 0.9, 0.98])
def test_an_autoregressive_series(memory: float) -> None:
    exact = (1 + memory) / (1 - memory)
    assert autocorrelation_time(autoregressive(memory, 64, 4000)) == pytest.approx(exact, rel=0.1)


def test_walkers_that_stay_where_they_started_are_not_independent_samples() -> None:
    places = torch.randn(50, 1, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    stuck = places + 0.01 * autoregressive(0.0, 50, 1000)
    assert effective_samples(stuck) < 100
    # The control: seen each by itself, the same walkers look independent.
    alone = stuck - stuck.mean(1, keepdim=True)
    assert effective_samples(alone) > 40_000


def test_a_constant_series_is_one_value() -> None:
    assert autocorrelation_time(torch.ones(3, 10)) == 1.0
