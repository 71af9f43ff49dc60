"""Averages of observables: angles on the circle, slow ones over some samples, failed ones nowhere."""

import math

import pytest
import torch

from boltzkit.analysis import Observable, average, circular_mean, observables_of
from boltzkit.analysis.averages import first_samples
from boltzkit.ensemble import Ensemble
from boltzkit.errors import UserError
from boltzkit.weights import LogWeights


def equal(n):
    return LogWeights(torch.zeros(n, dtype=torch.float64), {})


def test_a_circular_mean_goes_round():
    angles = torch.tensor([math.pi - 0.2, -math.pi + 0.1])
    found = circular_mean(equal(2), angles)
    assert math.cos(found.value - (math.pi - 0.05)) == pytest.approx(1)
    assert angles.mean().abs() < 0.1  # what the plain mean would have been


def test_no_direction_is_the_whole_circle():
    found = circular_mean(equal(4), torch.arange(4) * math.pi / 2)
    assert found.high - found.low == pytest.approx(2 * math.pi)


def test_weightless_angles_may_be_anything():
    weights = LogWeights(torch.tensor([0.0, 0.0, -math.inf], dtype=torch.float64), {"t": 1})
    assert circular_mean(weights, torch.tensor([0.1, 0.3, math.nan])).value == pytest.approx(0.2)
    with pytest.raises(UserError, match="not finite at 1 of the 2"):
        circular_mean(weights, torch.tensor([0.1, math.nan, 0.0]))


def test_a_peptide(peptide_ensemble, dipeptide):
    """The direction of φ is that of 0.8 e^{−80°i} + 0.2 e^{60°i}."""
    ensemble, observables = peptide_ensemble(20_000, failed=40), observables_of(dipeptide)
    x, y = (0.8 * f(math.radians(-80)) + 0.2 * f(math.radians(60)) for f in (math.cos, math.sin))
    found = average(ensemble, observables["phi ALA2"])
    assert abs(found.value - math.atan2(y, x)) < 4 * found.standard_error
    raw = circular_mean(equal(ensemble.n - 40), observables["phi ALA2"].values(ensemble.x)[:-40])
    assert abs(raw.value - math.atan2(y, x)) > 10 * found.standard_error


def test_slow_observables_use_the_first_samples():
    x = torch.arange(5_000.0)
    ensemble = Ensemble.from_samples(x, torch.zeros(5_000), torch.zeros(5_000))
    seen = []

    def values(x):
        seen.append(len(x))
        return x

    fast, slow = (average(ensemble, Observable("x", "", False, values, slow=s)) for s in (False, True))
    assert seen == [5_000, 2_000]
    assert (fast.value, slow.value) == pytest.approx((2499.5, 999.5))


def test_failed_samples_among_the_first_are_counted():
    energy = torch.tensor([math.nan, 0.0, 0.0, math.nan])
    ensemble = Ensemble.from_samples(torch.arange(4.0), energy, torch.zeros(4))
    assert first_samples(ensemble, 3).weights.failures == {"energy is NaN": 1}
    assert first_samples(ensemble, 9) is ensemble
