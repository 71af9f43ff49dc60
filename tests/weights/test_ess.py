"""The ESS interval covers, and the forward ESS agrees with the reverse one where both know everything."""

import math

import pytest
import torch

from boltzkit.errors import UserError
from boltzkit.randomness import generator
from boltzkit.weights import LogWeights, ess_interval, forward_ess


def hits(gaussian, s: float, shrink: float, n: int = 1000, repetitions: int = 300) -> int:
    truth, count = s * math.sqrt(2 - s**2), 0
    for seed in range(repetitions):
        e = ess_interval(gaussian(s, n, seed))
        low = e.value - shrink * (e.value - e.low)
        high = e.value + shrink * (e.high - e.value)
        count += low < truth < high
    return count


@pytest.mark.parametrize("s", [0.5, 0.9])
def test_interval_covers(gaussian, s: float) -> None:
    # Binomial(300, 0.95) lies in [270, 297] with probability 0.9998.
    assert 270 <= hits(gaussian, s, shrink=1.0) <= 297
    assert hits(gaussian, s, shrink=0.5) < 270


def test_interval_of_special_weights() -> None:
    equal = ess_interval(LogWeights(torch.zeros(50, dtype=torch.float64), {}))
    assert (equal.low, equal.value, equal.high) == pytest.approx((1, 1, 1))
    one = ess_interval(LogWeights(torch.tensor([0.0] + [-2000.0] * 99, dtype=torch.float64), {}))
    assert one.value == pytest.approx(0.01)
    assert 0.01 <= one.low <= one.high <= 1
    assert one.high > 0.01
    none = ess_interval(LogWeights.from_samples(torch.zeros(5), torch.full((5,), math.nan)))
    assert none.value == 0
    assert math.isnan(none.standard_error)


def test_interval_narrows_with_samples(gaussian) -> None:
    few, many = ess_interval(gaussian(0.6, 1_000)), ess_interval(gaussian(0.6, 100_000))
    assert (many.high - many.low) == pytest.approx((few.high - few.low) / 10, rel=0.2)
    assert ess_interval(gaussian(0.6, 1_000), confidence=0.5).low > few.low


def on_target(s: float, n: int = 200_000) -> LogWeights:
    """Weights at exact samples of p = N(0, s²), for q = N(0, 1)."""
    x = s * torch.randn(n, generator=generator(1, "target"), dtype=torch.float64)
    return LogWeights.from_samples(-0.5 * x**2 - 0.5 * math.log(2 * math.pi), 0.5 * (x / s) ** 2 + 12.0)


@pytest.mark.parametrize("s", [0.8, 1.1])
def test_forward_ess_of_a_gaussian(s: float) -> None:
    # q is the wider or only a little narrower, so that both means converge.
    assert forward_ess(on_target(s)).fraction == pytest.approx(s * math.sqrt(2 - s**2), abs=0.01)


def test_forward_ess_on_samples_of_the_flow_is_caught(gaussian) -> None:
    s = 0.8
    assert abs(forward_ess(gaussian(s, 200_000)).fraction - s * math.sqrt(2 - s**2)) > 0.02


def test_forward_ess_sees_a_missed_mode_and_reverse_does_not() -> None:
    x = torch.randn(100_000, generator=generator(2, "modes"), dtype=torch.float64)
    mode = torch.where(torch.arange(100_000) % 2 == 0, -4.0, 4.0)
    log_normaliser = 0.5 * math.log(2 * math.pi)

    def at(x: torch.Tensor) -> LogWeights:
        both = torch.logaddexp(-0.5 * (x - 4) ** 2, -0.5 * (x + 4) ** 2)
        return LogWeights.from_samples(-0.5 * (x - 4) ** 2 - log_normaliser, -both)

    assert at(x + 4).ess_fraction > 0.99
    assert forward_ess(at(x + mode)).fraction < 0.01


def test_forward_ess_counts_what_it_leaves_out() -> None:
    log_prob = torch.tensor([0.0, 0.0, -math.inf, 0.0])
    energy = torch.tensor([0.0, 0.0, 0.0, math.nan])
    result = forward_ess(LogWeights.from_samples(log_prob, energy))
    assert (result.fraction, result.n, result.n_outside, result.n_failed) == (pytest.approx(1), 4, 1, 1)
    with pytest.raises(UserError, match="no density on any of the 3"):
        forward_ess(LogWeights.from_samples(torch.full((3,), -math.inf), torch.zeros(3)))
