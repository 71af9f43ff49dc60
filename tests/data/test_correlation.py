"""The statistical inefficiency of processes whose memory is known."""

import numpy as np
import pytest

from boltzkit.data.correlation import statistical_inefficiency


def remembering(rho, n, seed):
    noise, x = np.random.default_rng(seed).normal(size=n), np.zeros(n)
    for i in range(1, n):
        x[i] = rho * x[i - 1] + noise[i]
    return x


@pytest.mark.parametrize("rho", [0.0, 0.5, 0.9])
def test_a_process_of_known_memory(rho):
    """AR(1) has g = (1 + ρ)/(1 − ρ)."""
    series = [remembering(rho, 20_000 + 1000 * seed, seed) for seed in range(4)]
    assert statistical_inefficiency(series) == pytest.approx((1 + rho) / (1 - rho), rel=0.15)


def test_trajectories_that_stay_where_they_began_are_not_independent():
    noise = np.random.default_rng(0).normal(size=(2, 1000))
    apart = [noise[0] - 5, noise[1] + 5]
    assert statistical_inefficiency(apart) > 500
    assert statistical_inefficiency(list(noise)) < 1.5  # the control: the same without the gap


def test_constants_and_nothing():
    assert statistical_inefficiency([np.full(50, 3.7)]) == 1.0
    assert statistical_inefficiency([]) == 1.0
    assert statistical_inefficiency([np.array([1.0])]) == 1.0
