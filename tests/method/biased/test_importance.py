"""Importance samples: drawn once, kept, and resampled by weight."""

import pytest
import torch

from boltzkit.energy import TargetConfig, build_target
from boltzkit.ensemble import Ensemble
from boltzkit.flow import RealNVPConfig, build_realnvp
from boltzkit.method.biased import ImportanceConfig, held_out_part, importance_set, resampled_data


@pytest.fixture
def samples():
    """Four samples with weights 1 : 2 : 5 and one that failed."""
    energy = -torch.tensor([1.0, 2.0, 5.0, torch.nan], dtype=torch.float64).log()
    return Ensemble.from_samples(torch.arange(4.0)[:, None], energy, torch.zeros(4, dtype=torch.float64))


def shares(data):
    return torch.bincount(data.rows, minlength=len(data.energy)).double() / data.size


def test_resampled_by_weight(samples):
    n = 40_000
    data = resampled_data(samples, torch.ones(4, dtype=torch.bool), n, seed=0)
    expected = torch.tensor([1, 2, 5, 0], dtype=torch.float64) / 8
    error = (expected * (1 - expected) / n).sqrt()
    assert ((shares(data) - expected).abs() <= 4 * error).all()
    # Equal shares, as without weights, are far outside.
    assert ((torch.full((4,), 0.25) - expected).abs() > 10 * error).any()
    batch = data.batch(torch.arange(100))
    assert torch.equal(batch.x[:, 0].long(), data.rows[:100])
    assert batch.energy.isfinite().all()


def test_what_is_kept_aside_is_never_drawn(samples):
    aside = held_out_part(samples, 0.5)
    assert aside.tolist() == [False, False, True, True]
    data = resampled_data(samples, ~aside, 3_000, seed=0)
    assert len(data.x) == 2
    assert float(data.x.max()) == 1.0
    assert not held_out_part(samples, 0.0).any()


def test_drawn_once(tmp_path):
    target = build_target(TargetConfig(name="gmm"))
    flow = build_realnvp(RealNVPConfig(layers=2, hidden=(8,)), 2, (0,), batched=False)
    config = ImportanceConfig(samples=300)
    first = importance_set(flow, target, config, 3, tmp_path / "set")
    assert target.evaluations == 300
    again = importance_set(flow, target, config, 3, tmp_path / "set")
    assert target.evaluations == 300
    assert torch.equal(first.x, again.x)
    assert torch.equal(first.weights.values, again.weights.values)
    other = importance_set(flow, target, config, 4, None)
    assert not torch.equal(first.x, other.x)
