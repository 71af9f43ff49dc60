"""Averages of observables: angles on the circle, slow ones over some samples, failed ones nowhere."""

import math

import pytest
import torch

from boltzkit.analysis import Observable, average, circular_mean, observables_of
from boltzkit.ensemble import Ensemble
from boltzkit.errors import UserError
from boltzkit.randomness import generator
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


def test_slow_observables_use_samples_picked_by_weight():
    """Weights e^(x/1000) on 0 … 5000: the mean is 5000/(1 − e⁻⁵) − 1000."""
    x = torch.arange(5_000.0)
    ensemble = Ensemble.from_samples(x, -x / 1000, torch.zeros(5_000))
    seen = []

    def values(x):
        seen.append(len(x))
        return x

    fast, slow = (average(ensemble, Observable("x", "", False, values, slow=s)) for s in (False, True))
    assert seen == [5_000, 2_000]
    assert (fast.value, slow.value) == pytest.approx(2 * (5000 / (1 - math.exp(-5)) - 1000,), rel=1e-3)
    spread = (slow.standard_error / math.sqrt(1 / 2000 + 1 / ensemble.weights.ess())) ** 2
    assert spread == pytest.approx(1000**2 * (1 - 25 * math.exp(-5) / (1 - math.exp(-5)) ** 2), rel=0.01)
    assert slow.standard_error > fast.standard_error


def test_an_interval_of_a_slow_observable_knows_that_few_samples_carry_the_weight():
    n = 100_000
    x = torch.randn(n, generator=generator(0, "x"), dtype=torch.float64)
    ensemble = Ensemble.from_samples(x, -2 * x, torch.zeros(n).double())
    slow = average(ensemble, Observable("x", "", False, lambda x: x, slow=True))
    assert abs(slow.value - 2.0) < 4 * slow.standard_error
    assert slow.standard_error > 0.9 / math.sqrt(ensemble.weights.ess())
