"""Drawing ensembles from a real flow against a harmonic target, where ESS and log Z are known."""

import math

import pytest
import torch

from boltzkit.ensemble import draw, draw_effective
from boltzkit.errors import UserError
from boltzkit.flow.realnvp import RealNVPConfig, build_realnvp

S = 0.7
ESS = (S * math.sqrt(2 - S**2)) ** 2
LOG_Z = 2 * math.log(S * math.sqrt(2 * math.pi))


def test_harmonic_target(flow, harmonic) -> None:
    ensemble = draw(flow, harmonic(S), 20_000, seed=0)
    assert abs(ensemble.weights.log_mean() - LOG_Z) < 3 * ensemble.weights.log_mean_error()
    assert ensemble.weights.ess_fraction == pytest.approx(ESS, abs=0.02)
    assert ensemble.energy.dtype == torch.float64
    other = draw(flow, harmonic(0.8), 20_000, seed=0)
    assert abs(other.weights.log_mean() - LOG_Z) > 3 * other.weights.log_mean_error()


def test_samples_depend_on_seed_and_chunk_alone(flow, harmonic) -> None:
    target = harmonic(S)
    short, long = draw(flow, target, 200, seed=3, chunk=100), draw(flow, target, 450, seed=3, chunk=100)
    assert torch.equal(short.x, long.x[:200])
    assert torch.equal(draw(flow, target, 450, seed=3, chunk=100).x, long.x)
    assert not torch.equal(draw(flow, target, 200, seed=4, chunk=100).x, short.x)
    assert len(torch.unique(long.x, dim=0)) == 450


def test_evaluations_are_counted(flow, harmonic) -> None:
    target = harmonic(S)
    assert draw(flow, target, 250, seed=0, chunk=100).energy_evaluations == 250
    assert draw(flow, target, 50, seed=0).energy_evaluations == 50
    assert target.evaluations == 300


def test_flow_keeps_its_mode_and_gets_no_gradient(flow, harmonic) -> None:
    flow.train()
    before = {name: value.clone() for name, value in flow.state_dict().items()}
    ensemble = draw(flow, harmonic(S), 100, seed=0)
    assert flow.training
    assert not ensemble.log_prob.requires_grad
    assert all(torch.equal(value, before[name]) for name, value in flow.state_dict().items())


def test_failed_energies_are_weightless(flow, harmonic) -> None:
    ensemble = draw(flow, harmonic(S, edge=1.0), 5_000, seed=0)
    failed = ensemble.x[:, 0] > 1.0
    assert ensemble.n == 5_000
    assert ensemble.weights.failures == {"energy is NaN": int(failed.sum())}
    assert (ensemble.weights.normalised()[failed] == 0).all()
    assert math.isfinite(ensemble.weights.ess())


def test_effective_number_is_reached_with_no_chunk_too_many(flow, harmonic) -> None:
    ensemble = draw_effective(flow, harmonic(S), 1_000, seed=0, limit=100_000, chunk=200)
    assert ensemble.weights.ess() >= 1_000
    assert ensemble.shortfall is None
    assert ensemble.n == ensemble.energy_evaluations < 1.2 * 1_000 / ESS + 200
    shorter = draw(flow, harmonic(S), ensemble.n - 200, seed=0, chunk=200)
    assert torch.equal(shorter.x, ensemble.x[:-200])
    assert shorter.weights.ess() < 1_000


def test_no_fewer_are_drawn_than_the_least(flow, harmonic) -> None:
    few = draw_effective(flow, harmonic(S), 100, seed=0, limit=100_000, chunk=200)
    more = draw_effective(flow, harmonic(S), 100, seed=0, limit=100_000, chunk=200, least=2_000)
    assert few.n < more.n == 2_000
    bounded = draw_effective(flow, harmonic(S), 100, seed=0, limit=1_000, chunk=200, least=2_000)
    assert bounded.n == 1_000


def test_who_watches_is_told_what_samples_are_worth(flow, harmonic) -> None:
    told: list[tuple[int, float]] = []
    ensemble = draw(flow, harmonic(S), 500, seed=0, chunk=200, watch=lambda n, e: told.append((n, e)))
    assert [n for n, _ in told] == [200, 400, 500]
    assert told[-1][1] == pytest.approx(ensemble.weights.ess())


def test_a_limit_that_is_too_low_is_told(flow, harmonic) -> None:
    ensemble = draw_effective(flow, harmonic(S), 1_000, seed=0, limit=300, chunk=200)
    assert ensemble.n == ensemble.energy_evaluations == 300
    assert ensemble.shortfall is not None
    assert "Asked for 1000 effective samples" in ensemble.shortfall
    assert ensemble.summary()["shortfall"] == ensemble.shortfall


def test_a_target_that_always_fails_stops_at_the_limit(flow, harmonic) -> None:
    ensemble = draw_effective(flow, harmonic(S, edge=-math.inf), 10, seed=0, limit=300, chunk=100)
    assert (ensemble.n, ensemble.weights.n_failed) == (300, 300)
    assert ensemble.verdict.level == "do not trust"


def test_bad_requests_are_refused(flow, harmonic) -> None:
    with pytest.raises(UserError, match="At least one sample"):
        draw(flow, harmonic(S), 0, seed=0)
    with pytest.raises(UserError, match="must be positive"):
        draw_effective(flow, harmonic(S), math.nan, seed=0, limit=10)
    replicas = build_realnvp(RealNVPConfig(layers=2, hidden=(8, 8)), dim=2, seeds=(0, 1), batched=True)
    with pytest.raises(UserError, match="one flow"):
        draw(replicas, harmonic(S), 10, seed=0)
