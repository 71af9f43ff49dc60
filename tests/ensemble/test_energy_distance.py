"""Distances of energy distributions: exact shifts, resampling, what chance gives, errors that cover."""

import math

import pytest
import torch

from boltzkit.ensemble import energy_distance
from boltzkit.ensemble.energy_distance import wasserstein_1d
from boltzkit.errors import UserError
from boltzkit.weights import LogWeights


def normal(n: int, seed: int, mean: float = 0.0, width: float = 1.0) -> torch.Tensor:
    return mean + width * torch.randn(n, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_a_shift_is_its_own_distance():
    x = normal(1000, 0)
    assert wasserstein_1d(x, x + 0.3) == pytest.approx(0.3)
    assert energy_distance(x, x[torch.randperm(1000)] - 2.0).value == pytest.approx(2.0)


def test_unequal_numbers_of_samples_are_compared_exactly():
    # Two against three: the quantile functions differ on pieces of 1/3, 1/6, 1/6, 1/3.
    a, b = torch.tensor([0.0, 6.0]), torch.tensor([0.0, 3.0, 9.0])
    exact = math.sqrt(0.0 / 3 + 9 / 6 + 9 / 6 + 9 / 3)
    assert wasserstein_1d(a, b) == pytest.approx(exact)
    assert wasserstein_1d(a.repeat(3), b.repeat(2)) == pytest.approx(exact)


def test_the_distance_of_two_gaussians():
    """W₂² = (Δμ)² + (Δσ)²."""
    found = energy_distance(normal(200_000, 0), normal(300_000, 1, 0.3, 1.4))
    assert abs(found.value - 0.5) < 4 * found.standard_error
    # The control: of a slightly other width, the check fails.
    assert abs(found.value - math.hypot(0.3, 0.45)) > 4 * found.standard_error


def test_weights_bring_a_shifted_model_back():
    x = normal(100_000, 1, 0.5)
    weights = LogWeights.from_samples(-0.5 * (x - 0.5) ** 2, 0.5 * x**2)
    raw = energy_distance(normal(100_000, 0), x)
    found = energy_distance(normal(100_000, 0), x, weights)
    assert raw.value == pytest.approx(0.5, abs=0.02)
    assert found.value < 3 * found.floor
    assert raw.value > 20 * raw.floor
    assert found.n == 100_000


def test_the_floor_is_what_chance_gives():
    found = [energy_distance(normal(2000, 2 * s), normal(5000, 2 * s + 1)) for s in range(30)]
    mean = sum(d.value for d in found) / len(found)
    assert sum(d.floor for d in found) / len(found) == pytest.approx(mean, rel=0.25)


@pytest.mark.parametrize(("shift", "most"), [(0.0, 1.0), (0.5, 0.99)])
def test_intervals_cover(shift, most):
    """Between equal distributions a single number decides, the difference of the means, and intervals are generous."""
    found = [energy_distance(normal(1000, 2 * s), normal(2000, 2 * s + 1, shift)) for s in range(200)]
    mean = math.sqrt(sum(d.value**2 for d in found) / len(found))
    covered = sum(d.low < mean < d.high for d in found) / len(found)
    assert 0.88 < covered <= most
    # The control: the same intervals around another distance.
    assert sum(d.low < mean + 0.2 < d.high for d in found) / len(found) < 0.2


def test_failed_energies_are_counted_and_left_out():
    data, model = normal(1000, 0), normal(1000, 1)
    model[:3] = torch.tensor([torch.nan, torch.inf, -torch.inf])
    found = energy_distance(data, model)
    assert found.n_failed == 3
    assert math.isfinite(found.value)
    weights = LogWeights.from_samples(torch.zeros(1000), model)
    assert energy_distance(data, model, weights).n_failed == 3
    with pytest.raises(UserError, match="finite"):
        energy_distance(data, torch.full((5,), torch.nan))
