"""Integrated autocorrelation times against series whose time is known."""

import numpy as np
import pytest
import torch

from boltzkit.data import autocorrelation_time, effective_samples


def remembering(memory, walkers, frames, seed=0):
    """AR(1), stationary, ``(walkers, frames)``; its time is (1 + ρ)/(1 − ρ)."""
    noise = np.random.default_rng(seed).normal(size=(frames, walkers))
    series = np.empty_like(noise)
    series[0] = noise[0]
    for t in range(1, frames):
        series[t] = memory * series[t - 1] + (1 - memory**2) ** 0.5 * noise[t]
    return series.T


@pytest.mark.parametrize("memory", [0.0, 0.5, 0.9, 0.98])
def test_a_process_of_known_memory(memory):
    series = torch.from_numpy(remembering(memory, 64, 4000))
    assert autocorrelation_time(series) == pytest.approx((1 + memory) / (1 - memory), rel=0.1)


def test_series_of_different_lengths():
    series = [remembering(0.9, 1, 20_000 + 5_000 * seed, seed)[0] for seed in range(4)]
    assert autocorrelation_time(series) == pytest.approx(19, rel=0.2)


def test_walkers_in_a_tensor_are_series_of_one_length():
    walkers = remembering(0.7, 5, 300).astype(np.float32)
    rows = list(walkers.astype(np.float64))
    assert autocorrelation_time(torch.from_numpy(walkers)) == autocorrelation_time(rows)
    assert effective_samples(torch.from_numpy(walkers)) == 1500 / autocorrelation_time(rows)


def test_walkers_that_stay_where_they_started_are_not_independent_samples():
    places = np.random.default_rng(1).normal(size=(50, 1))
    stuck = places + 0.01 * remembering(0.0, 50, 1000)
    assert effective_samples(torch.from_numpy(stuck)) < 100
    # The control: seen each by itself, the same walkers look independent.
    alone = stuck - stuck.mean(1, keepdims=True)
    assert effective_samples(torch.from_numpy(alone)) > 40_000


@pytest.mark.parametrize("value", [0.0, 3.7, -123_456.7])
def test_constants(value):
    """Also where their mean is rounded."""
    assert autocorrelation_time([np.full(n, value) for n in (49, 1001)]) == 1.0
    assert autocorrelation_time(torch.full((3, 10), value)) == 1.0
    noise = np.random.default_rng(2).normal(size=1000)
    assert (
        autocorrelation_time([value + 1e-6 * np.repeat(noise, 50)]) > 25
    )  # the control: small, but not constant


def test_nothing_and_a_single_value():
    assert autocorrelation_time([]) == 1.0
    assert autocorrelation_time([np.empty(0), np.array([1.0])]) == 1.0
