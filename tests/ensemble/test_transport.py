"""Exact Wasserstein distances in several dimensions, at small numbers."""

import math

import pytest
import torch

from boltzkit.ensemble import euclidean_distance, torus_distance
from boltzkit.ensemble.transport import _exact, _torus_cost
from boltzkit.errors import UserError
from boltzkit.weights import LogWeights


def normal(n: int, seed: int, mean: float = 0.0) -> torch.Tensor:
    return mean + torch.randn(n, 2, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_shifted_gaussians():
    """W₂ between Gaussians of one shape is the length of the shift; the floor is far below."""
    found = euclidean_distance(normal(2000, 0), normal(2000, 1, 3.0), n=400)
    assert found.value == pytest.approx(3 * math.sqrt(2), abs=0.2)
    assert found.n == 400
    assert found.floor < 0.5
    same = euclidean_distance(normal(2000, 0), normal(2000, 1), n=400)
    assert same.value == pytest.approx(same.floor, rel=0.35)
    assert found.value > 5 * found.floor


def test_the_shorter_way_around_the_torus():
    a, b = torch.tensor([[3.1, 0.0]]), torch.tensor([[-3.1, 0.0]])
    assert _exact(a, b, _torus_cost) == pytest.approx(2 * math.pi - 6.2, abs=1e-6)
    # Wrapping a point changes nothing on the torus, and much in the plane.
    points = 0.3 * normal(600, 0) + torch.tensor([3.1, 0.0])
    turned = torch.remainder(points + math.pi, 2 * math.pi) - math.pi
    assert torus_distance(points, turned, n=200).value < 0.2
    assert euclidean_distance(points, turned, n=200).value > 2


def test_more_than_one_residue_adds_up():
    one = 0.2 * normal(400, 0)
    two = torch.stack([one, one], dim=1)
    shift = torus_distance(one, one + 0.5, n=200).value
    assert torus_distance(two, two + 0.5, n=200).value == pytest.approx(shift * math.sqrt(2), rel=0.05)


def test_weights_bring_a_shifted_model_back():
    x = normal(20_000, 1, 0.7)
    squared = x.square().sum(-1)
    weights = LogWeights.from_samples(-0.5 * (x - 0.7).square().sum(-1), 0.5 * squared)
    raw = euclidean_distance(normal(2000, 0), x, n=400)
    found = euclidean_distance(normal(2000, 0), x, weights, n=400)
    assert raw.value > 0.8
    assert found.value < 1.5 * found.floor


def test_too_few_samples_are_refused():
    with pytest.raises(UserError, match="twice as many data"):
        euclidean_distance(normal(500, 0), normal(5000, 1), n=400)
    with pytest.raises(UserError, match="of the model"):
        euclidean_distance(normal(5000, 0), normal(300, 1), n=400)


def test_the_error_knows_that_few_samples_carry_the_weight():
    """Against the spread over independent ensembles; sets drawn from one of them share its heavy samples."""
    data, values, errors = normal(600, 0), [], []
    for seed in range(12):
        x = normal(1500, 10 + seed, 1.2)
        weights = LogWeights.from_samples(-0.5 * (x - 1.2).square().sum(-1), 0.5 * x.square().sum(-1))
        found = euclidean_distance(data, x, weights, n=150, floor=0.0)
        values.append(found.value)
        errors.append(found.standard_error)
    spread = torch.tensor(values).std()
    assert 0.5 * spread < torch.tensor(errors).mean() < 2 * spread


def test_a_spread_of_three_values_is_widened_for_being_so():
    """Of standard deviations of three values, Student's law says 4.3 and not 1.96."""
    found = euclidean_distance(normal(1200, 0), normal(900, 1), n=300)
    assert (found.high - found.value) / found.standard_error == pytest.approx(4.303, abs=0.01)
