"""Log weights: sign, effective number, log Z, failures, clipping and resampling against known answers."""

import math

import pytest
import torch

from boltzkit.errors import UserError
from boltzkit.randomness import generator
from boltzkit.weights import LogWeights

INF, NAN = math.inf, math.nan


def weights_of(*w: float) -> LogWeights:
    values = torch.tensor(w, dtype=torch.float64).log()
    zeros = sum(1 for value in w if value == 0)
    return LogWeights(values, {"energy is +inf": zeros} if zeros else {})


def ess_error(weights: LogWeights, s: float) -> float:
    return abs(weights.ess_fraction - s * math.sqrt(2 - s**2))


def log_z_sigmas(weights: LogWeights, s: float) -> float:
    return abs(weights.log_mean() - math.log(s * math.sqrt(2 * math.pi))) / weights.log_mean_error()


@pytest.mark.parametrize("s", [0.5, 0.8, 1.1])
def test_ess_and_log_z_of_a_gaussian(gaussian, s: float) -> None:
    weights = gaussian(s, 100_000)
    assert ess_error(weights, s) < 0.01
    assert log_z_sigmas(weights, s) < 3


def test_wrong_sign_is_caught(gaussian) -> None:
    weights = gaussian(0.5, 100_000, sign=-1.0)
    assert ess_error(weights, 0.5) > 0.1
    assert log_z_sigmas(weights, 0.5) > 10


def test_swapped_proposal_and_target_are_caught() -> None:
    x = torch.randn(100_000, generator=generator(0, "test"), dtype=torch.float64)
    log_prob = -0.5 * x**2 - 0.5 * math.log(2 * math.pi)
    swapped = LogWeights.from_samples(log_prob=-0.5 * (x / 0.5) ** 2, energy=-log_prob)
    assert ess_error(swapped, 0.5) > 0.1
    assert log_z_sigmas(swapped, 0.5) > 10


def coverage_of_log_z(gaussian, width: float) -> int:
    s, hits = 0.6, 0
    for seed in range(300):
        weights = gaussian(s, 400, seed)
        hits += log_z_sigmas(weights, s) < width
    return hits


def test_log_z_error_covers(gaussian) -> None:
    # Binomial(300, 0.95) lies in [270, 297] with probability 0.9998.
    assert 270 <= coverage_of_log_z(gaussian, 1.96) <= 297
    assert not 270 <= coverage_of_log_z(gaussian, 1.96 / 2) <= 297


def test_effective_number_of_plain_weights() -> None:
    assert weights_of(1, 1, 1, 1).ess() == pytest.approx(4)
    assert weights_of(1, 1, 0, 0).ess() == pytest.approx(2)
    assert weights_of(3, 1).ess() == pytest.approx(16 / 10)
    assert weights_of(3, 1).largest_share == pytest.approx(0.75)
    assert weights_of(2, 2).log_mean_error() == pytest.approx(0)
    assert math.isnan(weights_of(2).log_mean_error())


def test_values_far_from_zero_do_not_overflow() -> None:
    weights = LogWeights(torch.tensor([1e5, 1e5], dtype=torch.float64), {})
    assert weights.ess() == pytest.approx(2)
    assert weights.log_mean() == pytest.approx(1e5)


def test_every_failure_is_counted_named_and_weightless() -> None:
    energy = torch.tensor([0.0, NAN, INF, -INF, 0.0, 0.0, 0.0, 1e308, NAN, 0.0], dtype=torch.float64)
    log_prob = torch.tensor([0.0, 0.0, 0.0, 0.0, NAN, INF, -INF, 1e308, NAN, 0.0], dtype=torch.float64)
    weights = LogWeights.from_samples(log_prob, energy)
    assert weights.failures == {
        "energy is NaN": 2,
        "energy is +inf": 1,
        "energy is -inf": 1,
        "log_prob is NaN": 1,
        "log_prob is +inf": 1,
        "log_prob is -inf": 1,
        "log weight overflows": 1,
    }
    assert (weights.n, weights.n_failed, weights.n_weighted) == (10, 8, 2)
    assert weights.normalised().tolist() == [0.5] + [0.0] * 8 + [0.5]
    assert weights.ess() == pytest.approx(2)
    assert weights.ess_fraction == pytest.approx(0.2)
    assert weights.log_mean() == pytest.approx(math.log(0.2))


def test_failed_samples_stay_in_the_number_drawn(gaussian) -> None:
    clean = gaussian(0.8, 50_000)
    dirty = LogWeights(clean.values.clone().masked_fill(torch.arange(50_000) % 2 == 0, -INF), {"x": 25_000})
    assert dirty.n == clean.n
    assert dirty.log_mean() - clean.log_mean() == pytest.approx(math.log(0.5), abs=0.02)


def test_all_failed_is_one_clear_sentence() -> None:
    weights = LogWeights.from_samples(torch.zeros(3), torch.full((3,), NAN))
    assert weights.ess() == 0
    for use in (weights.normalised, weights.log_mean, weights.log_mean_error):
        with pytest.raises(
            UserError, match=r"None of the 3 samples carries weight \(3 times energy is NaN\)"
        ):
            use()


def test_shapes_that_do_not_match_are_refused() -> None:
    with pytest.raises(UserError, match="one log_prob and one energy per sample"):
        LogWeights.from_samples(torch.zeros(3), torch.zeros(4))
    with pytest.raises(UserError, match="one log_prob and one energy per sample"):
        LogWeights.from_samples(torch.zeros(0), torch.zeros(0))


@pytest.mark.parametrize(
    ("values", "failures"),
    [([0.0, NAN], {}), ([0.0, INF], {}), ([0.0, -INF], {}), ([0.0], {"energy is NaN": 1}), ([], {})],
)
def test_a_value_that_breaks_the_contract_cannot_be_made(
    values: list[float], failures: dict[str, int]
) -> None:
    with pytest.raises(ValueError, match=r"Log weights are|Every weightless sample"):
        LogWeights(torch.tensor(values, dtype=torch.float64), failures)


def test_float32_is_summed_in_float64() -> None:
    weights = LogWeights.from_samples(torch.zeros(10), torch.zeros(10))
    assert weights.values.dtype == torch.float64


def test_clip_sets_the_top_to_the_smallest_of_the_set() -> None:
    values = torch.arange(30_000, dtype=torch.float64)[torch.randperm(30_000, generator=generator(0, "p"))]
    clipped = LogWeights(values, {}).clipped()
    expected = values.clone()
    expected[values >= 29_997] = 29_997
    assert torch.equal(clipped.values, expected)


def test_clip_leaves_fewer_than_ten_thousand_alone(gaussian) -> None:
    assert torch.equal(gaussian(1.1, 9_999).clipped().values, gaussian(1.1, 9_999).values)
    one = gaussian(1.1, 10_000)
    # One weight is the smallest of its own set.
    assert torch.equal(one.clipped().values, one.values)
    assert not torch.equal(gaussian(1.1, 20_000).clipped().values, gaussian(1.1, 20_000).values)


def test_clip_never_takes_a_weightless_sample_for_the_ceiling() -> None:
    values = torch.full((20_000,), -INF, dtype=torch.float64)
    values[7] = 3.0
    assert torch.equal(LogWeights(values, {"energy is NaN": 19_999}).clipped().values, values)


def test_discard_drops_the_top_samples() -> None:
    values = torch.tensor([5.0, 1.0, 4.0, 2.0, -INF], dtype=torch.float64)
    kept = LogWeights(values, {"energy is NaN": 1}).discarded(0.4)
    assert kept.values.tolist() == [1.0, 2.0, -INF]
    assert (kept.n, kept.n_failed) == (3, 1)
    with pytest.raises(ValueError, match="fraction of the weights"):
        kept.discarded(1.0)


def chi_square(indices: torch.Tensor, probability: torch.Tensor) -> float:
    expected = probability * len(indices)
    counts = torch.bincount(indices, minlength=len(probability)).double()
    return float(((counts - expected) ** 2 / expected)[expected > 0].sum())


def test_resampling_frequencies() -> None:
    weights = weights_of(1, 0, 2, 3, 4)
    indices = weights.resample(50_000, generator(0, "resample"))
    # χ² with 3 degrees of freedom exceeds 16.3 once in a thousand.
    assert chi_square(indices, weights.normalised()) < 16.3
    assert not (indices == 1).any()
    assert chi_square(indices, weights_of(1.1, 0, 2, 3, 4).normalised()) > 16.3


def test_resampling_is_a_function_of_the_generator() -> None:
    weights = weights_of(1, 2, 3)
    first, second = (weights.resample(100, generator(3, "resample")) for _ in range(2))
    assert torch.equal(first, second)


def test_resampling_takes_more_than_two_to_the_24_samples() -> None:
    n = 2**24 + 10
    weights = LogWeights(torch.zeros(n, dtype=torch.float64), {})
    indices = weights.resample(100_000, generator(0, "resample"))
    assert int(indices.min()) >= 0
    assert int(indices.max()) < n
    assert float(indices.double().mean()) / n == pytest.approx(0.5, abs=5 / math.sqrt(12 * 100_000))
    with pytest.raises(RuntimeError):
        torch.multinomial(torch.ones(n), 1)
