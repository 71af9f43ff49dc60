"""Likelihood and the summary of a reweighting."""

import math

import pytest
import torch

from boltzkit.ensemble import negative_log_likelihood, reweighting
from boltzkit.errors import UserError
from boltzkit.randomness import generator
from boltzkit.weights import LogWeights


def test_likelihood_of_a_gaussian() -> None:
    x = torch.randn(100_000, generator=generator(0, "nll"), dtype=torch.float64)
    entropy = 0.5 * math.log(2 * math.pi * math.e)
    nll = negative_log_likelihood(-0.5 * x**2 - 0.5 * math.log(2 * math.pi))
    assert nll.standard_error == pytest.approx(math.sqrt(0.5 / 100_000), rel=0.05)
    assert abs(nll.value - entropy) < 3 * nll.standard_error
    wrong = negative_log_likelihood(-0.5 * (x / 1.1) ** 2 - 0.5 * math.log(2 * math.pi))
    assert abs(wrong.value - entropy) > 3 * wrong.standard_error


def test_likelihood_counts_what_it_leaves_out() -> None:
    nll = negative_log_likelihood(torch.tensor([-1.0, -3.0, -math.inf, math.nan, math.inf]))
    assert (nll.value, nll.n, nll.n_outside, nll.n_failed) == (2.0, 5, 1, 2)
    assert math.isnan(negative_log_likelihood(torch.tensor([-1.0])).standard_error)
    with pytest.raises(UserError, match="no density on any of the 2 samples"):
        negative_log_likelihood(torch.tensor([-math.inf, -math.inf]))


def test_summary_of_a_gaussian(gaussian_ensemble) -> None:
    s = 0.7
    summary = reweighting(gaussian_ensemble(s, 50_000).weights)
    assert summary.ess.low < s * math.sqrt(2 - s**2) < summary.ess.high
    assert summary.effective == pytest.approx(50_000 * summary.ess_raw)
    assert abs(summary.log_z - math.log(s * math.sqrt(2 * math.pi))) < 3 * summary.log_z_se
    assert summary.ess_clipped == pytest.approx(summary.ess_raw, rel=1e-3)


def test_clipping_raises_the_ess_of_an_outlier(gaussian_ensemble) -> None:
    values = gaussian_ensemble(0.7, 50_000).weights.values.clone()
    values[0] += 20
    summary = reweighting(LogWeights(values, {}))
    assert summary.ess_clipped > 0.5
    assert summary.ess_raw < 0.01


def test_summary_without_any_weight_invents_nothing() -> None:
    summary = reweighting(LogWeights.from_samples(torch.zeros(4), torch.full((4,), math.nan)))
    assert (summary.n, summary.n_failed, summary.failures) == (4, 4, {"energy is NaN": 4})
    assert summary.ess_raw == summary.ess_clipped == summary.effective == 0
    assert all(
        math.isnan(v) for v in (summary.log_z, summary.log_z_se, summary.pareto_k, summary.largest_share)
    )
