"""The tail fit against tails of known shape."""

import math

import pytest
import torch

from boltzkit.randomness import generator
from boltzkit.weights import LogWeights, log_z_error, pareto_k, pareto_k_limit, pareto_smoothed


def pareto(k: float, n: int, seed: int = 0) -> LogWeights:
    """Weights w = U^(−k), an exact Pareto tail of shape k."""
    uniform = torch.rand(n, generator=generator(seed, "pareto"), dtype=torch.float64)
    return LogWeights(-k * torch.log1p(-uniform), {})


@pytest.mark.parametrize("k", [0.2, 0.5, 0.8, 1.5])
def test_shape_of_a_pareto_tail(k: float) -> None:
    # The tail holds M = 3√n = 949 weights; the fit's standard error is about (1 + k)/√M.
    tolerance = 3 * (1 + k) / math.sqrt(949) + 0.02
    fitted = pareto_k(pareto(k, 100_000))
    assert fitted == pytest.approx(k, abs=tolerance)
    assert pareto_k(pareto(k + 0.5, 100_000)) != pytest.approx(k, abs=tolerance)
    assert pareto_k(LogWeights(-pareto(k, 100_000).values, {})) != pytest.approx(k, abs=tolerance)


def test_shape_of_light_tails() -> None:
    uniform = torch.rand(100_000, generator=generator(0, "light"), dtype=torch.float64)
    assert pareto_k(LogWeights(torch.log(-torch.log(uniform)), {})) == pytest.approx(0, abs=0.12)
    assert pareto_k(LogWeights(torch.log(uniform), {})) == pytest.approx(-1, abs=0.12)


def test_gaussian_importance_weights(gaussian) -> None:
    # k = 1 − 1/s², approached from below with a logarithmic correction.
    assert 0.6 < pareto_k(gaussian(2.0, 200_000)) < 0.85
    assert pareto_k(gaussian(0.7, 200_000)) < 0


@pytest.mark.parametrize(
    ("k", "expected"),
    [(0.2, 0.23823078181466), (0.5, 0.49647739714891), (0.9, 0.84097275810461)],
)
def test_fit_agrees_with_arviz_stats(k: float, expected: float) -> None:
    """Reference numbers: arviz-stats 0.8.0, ``psislw`` on these 900 quantiles."""
    rank = (torch.arange(900, dtype=torch.float64) + 0.5) / 900
    assert pareto_k(LogWeights(-k * torch.log1p(-rank), {})) == pytest.approx(expected, abs=1e-12)


def test_shape_does_not_depend_on_scale_or_order() -> None:
    weights = pareto(0.5, 5_000)
    assert pareto_k(LogWeights(weights.values + 1e4, {})) == pytest.approx(pareto_k(weights), abs=1e-6)
    assert pareto_k(LogWeights(weights.values.flip(0), {})) == pareto_k(weights)


def test_hopeless_weights_have_a_finite_large_shape() -> None:
    spread = 1e4 * torch.randn(5_000, generator=generator(0, "spread"), dtype=torch.float64)
    assert 100 < pareto_k(LogWeights(spread, {})) < math.inf


def test_equal_weights_and_too_few() -> None:
    assert pareto_k(LogWeights(torch.zeros(1000, dtype=torch.float64), {})) == -math.inf
    assert math.isnan(pareto_k(pareto(0.5, 20)))
    assert math.isfinite(pareto_k(pareto(0.5, 30)))
    failed = LogWeights.from_samples(torch.zeros(100), torch.full((100,), math.nan))
    assert math.isnan(pareto_k(failed))


def test_weightless_samples_do_not_enter_the_fit() -> None:
    weights = pareto(0.5, 1_000)
    failed = torch.full((500,), -math.inf, dtype=torch.float64)
    mixed = LogWeights(torch.cat([failed, weights.values]), {"energy is NaN": 500})
    assert pareto_k(mixed) == pareto_k(weights)
    assert torch.equal(pareto_smoothed(mixed).values[500:], pareto_smoothed(weights).values)


def test_smoothing_keeps_ranks_and_the_largest_weight() -> None:
    weights = pareto(0.7, 10_000)
    smooth = pareto_smoothed(weights).values
    order = weights.values.argsort()
    assert (smooth[order].diff() >= 0).all()
    assert smooth.max() <= weights.values.max()
    changed = smooth != weights.values
    assert not changed[order[:-300]].any()
    assert int(changed[order[-300:]].sum()) > 290


def test_smoothing_steadies_the_mean() -> None:
    """E[w] = 1/(1 − k): over repetitions the smoothed mean errs less than the raw one."""
    truth, raw, smooth = 1 / (1 - 0.8), 0.0, 0.0
    for seed in range(200):
        weights = pareto(0.8, 1_000, seed)
        raw += (math.exp(weights.log_mean()) - truth) ** 2
        smooth += (math.exp(pareto_smoothed(weights).log_mean()) - truth) ** 2
    assert smooth < 0.8 * raw


def test_limit_for_the_number_of_samples() -> None:
    assert pareto_k_limit(100) == pytest.approx(0.5)
    assert pareto_k_limit(10**6) == 0.7
    assert pareto_k_limit(1) == -math.inf


def deviations(k: float, n: int, repetitions: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return (log Z − exact)/error of many sets of weights with a Pareto tail: error with the tail's, and plain."""
    found = []
    for seed in range(repetitions):
        weights = pareto(k, n, seed)
        off = weights.log_mean() + math.log1p(-k)  # the mean of U^(−k) is 1/(1 − k)
        found.append((off / log_z_error(weights), off / weights.log_mean_error()))
    both = torch.tensor(found, dtype=torch.float64).abs()
    return both[:, 0], both[:, 1]


@pytest.mark.parametrize("k", [0.6, 0.65])
def test_the_error_of_log_z_covers_a_heavy_tail(k: float) -> None:
    covered, plain = (float((far < 1.96).double().mean()) for far in deviations(k, 20_000, 200))
    assert covered > 0.90
    assert plain < 0.90  # the control: without the tail's own uncertainty intervals are too short
    assert plain < covered - 0.05


def test_a_light_tail_changes_nothing() -> None:
    weights = pareto(0.3, 20_000)
    assert log_z_error(weights) == weights.log_mean_error()
    assert log_z_error(LogWeights(torch.zeros(100, dtype=torch.float64), {})) == 0
    few = LogWeights(torch.tensor([0.0, 1.0, 2.0], dtype=torch.float64), {})
    assert log_z_error(few) == few.log_mean_error()


def test_the_error_of_log_z_knows_no_unit() -> None:
    weights = pareto(0.65, 20_000)
    shifted = LogWeights(weights.values + 700.0, {})
    assert log_z_error(shifted) == pytest.approx(log_z_error(weights), rel=1e-9)
    # Samples without weight are drawn too: the mean and the tail shrink alike.
    failed = LogWeights(torch.cat([weights.values, torch.full((20_000,), -torch.inf)]), {"failed": 20_000})
    assert weights.log_mean_error() < log_z_error(weights) < 1.2 * log_z_error(failed)


def test_hopeless_tails_have_a_finite_error() -> None:
    assert math.isfinite(log_z_error(pareto(1.5, 20_000)))
    assert log_z_error(pareto(1.5, 20_000)) > pareto(1.5, 20_000).log_mean_error()
