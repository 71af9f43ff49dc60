"""The bootstrap against formulas, and that it is reproducible."""

import math

import pytest
import torch

from boltzkit.analysis import bootstrap
from boltzkit.ensemble import Ensemble
from boltzkit.errors import UserError


def test_it_agrees_with_the_delta_method(gaussian_ensemble):
    ensemble = gaussian_ensemble(0.7, 2_000)
    formula = ensemble.expectation(lambda x: x**2)
    found = bootstrap(ensemble, lambda share: share @ ensemble.x**2, repeats=2_000)
    assert found.value == pytest.approx(formula.value)
    # The error of a standard deviation from 2000 repeats is 1.6 %.
    assert found.standard_error == pytest.approx(formula.standard_error, rel=0.065)
    assert found.low == pytest.approx(formula.low, abs=0.3 * formula.standard_error)
    unweighted = bootstrap(gaussian_ensemble(1.0, 2_000), lambda share: share @ ensemble.x**2, repeats=2_000)
    assert unweighted.standard_error != pytest.approx(formula.standard_error, rel=0.065)


def test_the_same_seed_gives_the_same_interval(gaussian_ensemble):
    ensemble = gaussian_ensemble(0.7, 300)
    first, again, other = (
        bootstrap(ensemble, lambda share: share @ ensemble.x, seed=seed) for seed in (0, 0, 1)
    )
    assert first == again
    assert first != other


def test_failed_samples_never_count():
    x = torch.tensor([1.0, 2.0, 9.0], dtype=torch.float64)
    ensemble = Ensemble.from_samples(x, torch.tensor([0.0, 0.0, math.nan]), torch.zeros(3))
    found = bootstrap(ensemble, lambda share: (share * x).sum(1))
    assert found.value == pytest.approx(1.5)
    assert found.high <= 2


def test_one_repetition_is_refused(gaussian_ensemble):
    with pytest.raises(UserError, match="at least 2"):
        bootstrap(gaussian_ensemble(1.0, 10), lambda share: share[:, 0], repeats=1)
