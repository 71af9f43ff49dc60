"""Averages, populations and free energies: values and coverage against a Gaussian with known answers."""

import math
from collections.abc import Callable
from statistics import NormalDist

import pytest
import torch
from torch import Tensor

from boltzkit.ensemble import Ensemble
from boltzkit.ensemble.estimates import population
from boltzkit.errors import UserError
from boltzkit.weights import Estimate, LogWeights

S = 0.7
TARGET = NormalDist(0, S)
REPETITIONS = 400
ALLOWED = range(364, 395)
"""Binomial(400, 0.95) lies here with probability 0.9997."""


def right(x: Tensor) -> Tensor:
    return x > 0.5


def left(x: Tensor) -> Tensor:
    return x < -0.2


CASES: dict[str, tuple[Callable[[Ensemble], Estimate], float]] = {
    "second moment": (lambda e: e.expectation(lambda x: x**2), S**2),
    "population": (lambda e: e.expectation(right), 1 - TARGET.cdf(0.5)),
    "rare population": (lambda e: e.expectation(lambda x: x > 1.4), 1 - TARGET.cdf(1.4)),
    "free energy": (
        lambda e: e.free_energy_difference(left, right),
        -math.log((1 - TARGET.cdf(0.5)) / TARGET.cdf(-0.2)),
    ),
}


def hits(make, estimate: Callable[[Ensemble], Estimate], truth: float, s: float, shrink: float) -> int:
    count = 0
    for seed in range(REPETITIONS):
        e = estimate(make(s, 500, seed))
        count += e.value - shrink * (e.value - e.low) < truth < e.value + shrink * (e.high - e.value)
    return count


@pytest.mark.parametrize("case", CASES)
def test_intervals_cover(gaussian_ensemble, case: str) -> None:
    estimate, truth = CASES[case]
    assert hits(gaussian_ensemble, estimate, truth, S, shrink=1.0) in ALLOWED
    assert hits(gaussian_ensemble, estimate, truth, S, shrink=0.5) not in ALLOWED


@pytest.mark.parametrize("case", ["second moment", "population", "free energy"])
def test_coverage_check_rejects_unweighted_samples(gaussian_ensemble, case: str) -> None:
    estimate, truth = CASES[case]
    assert hits(gaussian_ensemble, estimate, truth, s=1.0, shrink=1.0) not in ALLOWED


def test_sign_of_a_free_energy_difference(gaussian_ensemble) -> None:
    ensemble = gaussian_ensemble(S, 20_000)
    there = ensemble.free_energy_difference(lambda x: x.abs() < 0.5, lambda x: x.abs() > 1.5)
    back = ensemble.free_energy_difference(lambda x: x.abs() > 1.5, lambda x: x.abs() < 0.5)
    assert there.value > 0
    assert back.value == pytest.approx(-there.value)
    assert ensemble.free_energy_difference(right, right).value == 0


def test_masks_are_states_too(gaussian_ensemble) -> None:
    ensemble = gaussian_ensemble(S, 1_000)
    by_function = ensemble.free_energy_difference(left, right)
    assert ensemble.free_energy_difference(left(ensemble.x), right(ensemble.x)) == by_function


def test_an_empty_state_is_named(gaussian_ensemble) -> None:
    ensemble = gaussian_ensemble(S, 1_000)
    with pytest.raises(UserError, match="State b is empty"):
        ensemble.free_energy_difference(left, lambda x: x > 50)
    with pytest.raises(UserError, match="State a is empty"):
        ensemble.free_energy_difference(lambda x: x > 50, left)


def test_a_state_of_failed_samples_is_empty() -> None:
    x = torch.tensor([0.0, 0.0, 9.0])
    ensemble = Ensemble.from_samples(x, torch.tensor([0.0, 0.0, math.nan]), torch.zeros(3), 3, "t")
    with pytest.raises(UserError, match="State b is empty"):
        ensemble.free_energy_difference(lambda x: x < 1, lambda x: x > 1)


def test_failed_samples_do_not_reach_an_average() -> None:
    x = torch.tensor([1.0, 3.0, math.nan])
    ensemble = Ensemble.from_samples(x, torch.tensor([0.0, 0.0, math.nan]), torch.zeros(3), 3, "t")
    assert ensemble.expectation(lambda x: x).value == pytest.approx(2)


def test_a_function_that_is_not_finite_is_refused(gaussian_ensemble) -> None:
    with pytest.raises(UserError, match="not finite at"):
        gaussian_ensemble(S, 100).expectation(torch.log)


def test_wrong_shapes_and_types_are_refused(gaussian_ensemble) -> None:
    ensemble = gaussian_ensemble(S, 100)
    with pytest.raises(UserError, match=r"one number per sample, shape \(100,\), not \(\)"):
        ensemble.expectation(lambda x: x.mean())
    with pytest.raises(UserError, match="State a must be True or False"):
        ensemble.free_energy_difference(lambda x: x, right)


def test_a_population_of_none_or_all_is_not_certain(gaussian_ensemble) -> None:
    ensemble = gaussian_ensemble(S, 1_000)
    none, every = ensemble.expectation(lambda x: x > 50), ensemble.expectation(lambda x: x < 50)
    assert none.value == none.low == 0
    assert 0 < none.high < 0.01
    assert every.value == pytest.approx(1)
    assert 0.99 < every.low < 1
    assert every.high == 1


def test_one_light_sample_does_not_make_a_population_certain() -> None:
    values = torch.zeros(1_000, dtype=torch.float64)
    values[0] = -25.0
    estimate = population(LogWeights(values, {}), torch.arange(1_000) == 0)
    assert estimate.value < 1e-10
    assert estimate.high > 1e-3


def test_oversampled_rare_state_keeps_its_precision() -> None:
    """Five hundred samples of weight 1e-6 know their population to 1/√500, whatever the effective number."""
    values = torch.zeros(1_000, dtype=torch.float64)
    values[:500] = math.log(1e-6)
    estimate = population(LogWeights(values, {}), torch.arange(1_000) < 500)
    assert (estimate.high - estimate.low) / estimate.value == pytest.approx(
        3.92 / math.sqrt(500) * 1.41, rel=0.1
    )


def test_confidence_widens(gaussian_ensemble) -> None:
    ensemble = gaussian_ensemble(S, 1_000)
    wide = ensemble.expectation(lambda x: x, confidence=0.99)
    narrow = ensemble.expectation(lambda x: x, confidence=0.5)
    assert wide.low < narrow.low < narrow.high < wide.high
    assert wide.confidence == 0.99
    with pytest.raises(ValueError, match="between 0 and 1"):
        ensemble.expectation(lambda x: x, confidence=95)


def test_frames_that_belong_together_do_not_make_an_unseen_state_certain() -> None:
    """Twenty blocks of a thousand frames say as much about a state that none of them visits as twenty samples."""
    weights, inside = LogWeights(torch.zeros(20_000, dtype=torch.float64), {}), torch.zeros(20_000)
    together = population(weights, inside, block=torch.arange(20_000) // 1000)
    alone = population(LogWeights(torch.zeros(20, dtype=torch.float64), {}), torch.zeros(20))
    assert together.high == pytest.approx(alone.high, rel=1e-9)
    assert together.high > 0.1
    # The control: as independent frames they would exclude a state of two in a thousand.
    assert population(weights, inside).high < 2e-3
