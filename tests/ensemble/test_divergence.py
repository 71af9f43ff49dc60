"""Histogram divergences: analytic values, what chance gives, and errors that cover."""

import math

import pytest
import torch

from boltzkit.ensemble import Grid, Histogram, histogram_divergence, ramachandran_divergence
from boltzkit.ensemble.divergence import null_corrected

COARSE = Grid((-math.pi, -math.pi), (math.pi, math.pi), periodic=True, bins=12)


def wrapped(n: int, seed: int, centre: float = 0.0, width: float = 0.7) -> torch.Tensor:
    """Return (φ, ψ) of a wrapped Gaussian, ``(n, 1, 2)``."""
    random = torch.Generator().manual_seed(seed)
    x = centre + width * torch.randn(n, 1, 2, generator=random, dtype=torch.float64)
    return torch.remainder(x + math.pi, 2 * math.pi) - math.pi


def exact_kl(centre: float, width: float = 0.7, bins: int = 12) -> float:
    """Return KL between binned wrapped Gaussians at 0 and at a centre, by their cumulative functions."""
    edges = torch.linspace(-math.pi, math.pi, bins + 1, dtype=torch.float64)

    def masses(at: float) -> torch.Tensor:
        turns = torch.arange(-3, 4, dtype=torch.float64)[:, None] * 2 * math.pi
        below = torch.special.ndtr((edges + turns - at) / width)
        return (below[:, 1:] - below[:, :-1]).sum(0)

    one, other = masses(0.0), masses(centre)
    p, q = torch.outer(one, one), torch.outer(other, other)
    return float((p * torch.log(p / q)).sum())


def test_the_divergence_of_known_densities_is_found():
    exact = exact_kl(0.5)
    found = ramachandran_divergence(wrapped(200_000, 0), wrapped(200_000, 1, 0.5), grid=COARSE)
    assert abs(found.value - found.floor - exact) < 4 * found.standard_error
    assert found.low < found.value < found.high
    # The control: of another shift, the same check fails.
    assert abs(found.value - exact_kl(0.45)) > 4 * found.standard_error


def test_the_floor_is_what_chance_gives():
    same = [ramachandran_divergence(wrapped(40_000, s), wrapped(400_000, 100 + s)) for s in range(4)]
    # Bins that neither sample reached are unknown to the floor, which is therefore a little low.
    assert same[0].floor < sum(d.value for d in same) / 4 < 1.6 * same[0].floor
    off = ramachandran_divergence(wrapped(20_000, 0), wrapped(20_000, 1, 0.5))
    assert off.value > 1.5 * off.floor


def test_weights_bring_a_shifted_model_back():
    data, model = wrapped(50_000, 0), wrapped(200_000, 1, 0.3)
    log_weight = ((model - 0.3).square() - model.square()).sum((1, 2)) / (2 * 0.7**2)
    raw = ramachandran_divergence(data, model, grid=COARSE)
    reweighted = ramachandran_divergence(data, model, log_weight.exp(), grid=COARSE)
    assert raw.value > 20 * raw.floor
    assert reweighted.value < 3 * reweighted.floor
    # Weights cost effective samples: about ESS = exp(−s²/σ²) in each of two dimensions.
    assert reweighted.n_model == pytest.approx(200_000 * math.exp(-2 * (0.3 / 0.7) ** 2), rel=0.15)
    assert raw.n_model == pytest.approx(200_000, rel=0.05)


@pytest.mark.parametrize("shift", [0.0, 0.05, 0.4])
def test_intervals_cover_the_mean_over_repetitions(shift):
    """Near zero the divergence is quadratic in the noise, far from it linear: the error must be right in both."""
    found = [
        ramachandran_divergence(wrapped(3000, 2 * s), wrapped(6000, 2 * s + 1, shift), grid=COARSE)
        for s in range(200)
    ]
    mean = sum(d.value for d in found) / len(found)
    covered = sum(d.low < mean < d.high for d in found) / len(found)
    assert 0.88 < covered <= 0.99
    # The control: a third of the error does not cover.
    narrow = sum(abs(d.value - mean) < (d.high - d.value) / 3 for d in found) / len(found)
    assert narrow < 0.8


def test_intervals_of_reweighted_samples_cover():
    """Here the flow is off by 0.3 and its weights bring it to 0.1, which is what is left to find."""
    found = []
    for s in range(200):
        model = wrapped(6000, 2 * s + 1, 0.3)
        log_weight = ((model - 0.3).square() - (model - 0.1).square()).sum((1, 2)) / (2 * 0.7**2)
        found.append(ramachandran_divergence(wrapped(3000, 2 * s), model, log_weight.exp(), grid=COARSE))
    mean = sum(d.value for d in found) / len(found)
    assert 0.88 < sum(d.low < mean < d.high for d in found) / len(found) <= 0.99
    assert sum(abs(d.value - mean) < (d.high - d.value) / 3 for d in found) / len(found) < 0.8


def test_correlated_data_are_worth_fewer_samples():
    """Every sample repeated ten times: blocks of repeated ones see it, blocks that mix them up do not."""
    few = wrapped(4000, 0)
    data = few.repeat_interleave(10, dim=0)
    together = torch.arange(40_000) // 400
    apart = torch.arange(40_000) % 100
    seen, unseen = (Histogram.of(COARSE, data[:, 0], block=block) for block in (together, apart))
    assert seen.effective == pytest.approx(4000, rel=0.15)
    assert unseen.effective > 30_000


def test_what_lies_outside_is_counted_and_makes_the_divergence_larger():
    random = torch.Generator().manual_seed(0)
    data = torch.rand(100_000, 2, generator=random, dtype=torch.float64)
    grid = Grid.around(data, bins=5)
    reference = Histogram.of(grid, data)
    assert (reference.outside, reference.n_outside) == (0.0, 0)
    stray = torch.cat([data[:75_000], data[75_000:] + 3.0])
    stray[0] = torch.nan
    model = Histogram.of(grid, stray)
    assert model.n_outside == 25_001
    found = histogram_divergence([reference], [model])
    # A quarter of the model is elsewhere: KL = −log(3/4).
    assert found.outside == pytest.approx(0.25, abs=1e-4)
    assert found.value == pytest.approx(-math.log(0.75), abs=1e-3)


def test_a_density_has_integral_one_and_wraps():
    angles = torch.tensor([[math.pi, -math.pi], [math.pi - 1e-9, 3.0], [-3.5, 0.0]], dtype=torch.float64)
    histogram = Histogram.of(COARSE, angles)
    assert float(histogram.probability.sum()) == pytest.approx(1.0)
    assert histogram.n_outside == 0
    ends = torch.tensor([[math.pi, 0.0], [-math.pi, 0.0]], dtype=torch.float64)
    assert len(COARSE.cell(ends).unique()) == 1


def test_both_limits_of_the_corrected_variance():
    assert null_corrected(4.0, 2.0) == 2.0
    assert null_corrected(100.0, 2.0) == 98.0
    assert null_corrected(0.0, 2.0) == 2.0
