"""FAB: annealed weights against an exact integral, the budget, exact resume, and the result."""

import math

import pytest
import torch

from boltzkit.energy import TargetConfig
from boltzkit.ensemble import draw
from boltzkit.errors import UserError
from boltzkit.flow import RealNVPConfig
from boltzkit.method import Model, ObjectiveConfig, RunConfig, build_problem, fit
from boltzkit.method.fab import Bridge, FabConfig, anneal
from boltzkit.randomness import generator
from boltzkit.training import TrainingConfig, train


def config(batches: int = 30, **changes) -> RunConfig:
    settings = FabConfig(
        **{"annealed": 128, "first": 5, "updates": 4, "intermediate": 3, "leaps": 2, "step": 0.3} | changes
    )
    settings = settings.model_copy(update={"evaluations": settings.cost * settings.annealed * batches + 17})
    return RunConfig(
        target=TargetConfig(name="gmm"),
        flow=RealNVPConfig(layers=6, hidden=(32, 32), statistics="running"),
        objective=ObjectiveConfig(dispersion="l1", data_weight=0.3),
        fab=settings,
        training=TrainingConfig(
            steps=settings.updates * (batches - settings.first + 1),
            batch=128,
            learning_rate=2e-3,
            warm_up=10,
            log_every=1,
            checkpoint_every=7,
        ),
    )


def exact_log_integral(model: Model, order: float) -> float:
    """Return log ∫ p^α q^(1−α) by a grid."""
    axis = torch.linspace(-5, 5, 801, dtype=torch.float64)
    grid = torch.cartesian_prod(axis, axis)
    values = -order * model.target._energy(grid) + (1 - order) * model.log_prob(grid).double()
    return float(torch.logsumexp(values, 0)) + 2 * math.log(float(axis[1] - axis[0]))


def annealed_estimate(model: Model, settings: FabConfig, repeats: int = 40) -> tuple[float, float]:
    """Return log of the mean annealed weight and its standard error."""
    bridge = Bridge(model.flow, model.target)
    runs = [anneal(bridge, settings, 0.4, generator(k, "annealing")) for k in range(repeats)]
    weights = torch.cat([run.log_weight for run in runs]).exp()
    return math.log(weights.mean()), float(weights.std() / weights.mean()) / math.sqrt(len(weights))


def test_annealed_weights_have_the_exact_mean():
    run = config(order=2.0)
    model = Model.untrained(run)
    value, error = annealed_estimate(model, run.fab)
    assert error < 0.05
    assert abs(value - exact_log_integral(model, 2.0)) < 4 * error
    # Control: the integral of another order.
    assert abs(value - exact_log_integral(model, 1.5)) > 4 * error


def test_annealing_helps():
    run = config()
    model = Model.untrained(run)
    _, with_moves = annealed_estimate(model, run.fab)
    _, without = annealed_estimate(model, run.fab.model_copy(update={"intermediate": 1, "leaps": 1}))
    assert with_moves < without


def test_the_budget_is_never_exceeded_and_counted():
    run = config(batches=12)
    problem = build_problem((run,), batched=False)
    seen, energy = [], problem.target._energy

    def counted(x):
        seen.append(x.shape[:-1].numel())
        return energy(x)

    problem.target._energy = counted
    state = train(problem, run.training)
    assert sum(seen) == state.evaluations == 12 * 128 * run.fab.cost
    assert state.evaluations <= run.fab.evaluations


def test_a_stopped_run_goes_on_bit_for_bit(tmp_path):
    run = config(batches=10)
    whole, _ = fit(run, tmp_path / "whole")

    class Stopped(Exception):
        pass

    def stop(line, steps):
        if line["step"] == 10:
            raise Stopped

    with pytest.raises(Stopped):
        fit(run, tmp_path / "parts", stop)
    resumed, _ = fit(run, tmp_path / "parts")
    ours, theirs = resumed.flow.state_dict(), whole.flow.state_dict()
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)


def test_a_mixture_is_learned_from_its_energy_alone():
    run = config(batches=110)
    problem = build_problem((run,), batched=False)
    before = draw(problem.flow.eval(), problem.target, 10_000, seed=5).reweighting.ess_raw
    train(problem, run.training)
    found = draw(problem.flow.eval(), problem.target, 10_000, seed=5)
    assert found.reweighting.ess_raw > max(0.8, before)
    assert abs(found.reweighting.log_z - problem.target.log_z) < 4 * found.reweighting.log_z_se
    assert len({(bool(a), bool(b)) for a, b in (found.x > 0).tolist()}) == 4


def test_a_buffer_that_starts_too_small_is_refused():
    with pytest.raises(UserError, match=r"raise fab\.first"):
        build_problem((config(first=1),), batched=False)


def test_samples_without_a_finite_energy_are_counted_and_never_learned_from():
    run = config(batches=12, first=8)
    problem = build_problem((run,), batched=False)
    energy = problem.target._energy

    def broken(x):
        # A quarter of the plane has no energy.
        return torch.where((x > 0).all(-1), torch.nan, energy(x))

    problem.target._energy = broken
    batch = problem.batch(0)
    assert not (batch.x > 0).all(-1).any()
    failed = int(problem.batch.figures(problem.flow)["failed_samples"])
    kept = int(problem.batch.figures(problem.flow)["buffer"])
    assert failed > 0
    assert failed + kept == 8 * 128


def test_too_few_finite_samples_are_said():
    run = config(batches=12)
    problem = build_problem((run,), batched=False)
    problem.target._energy = lambda x: torch.full(x.shape[:-1], torch.nan) + 0 * x.sum(-1)
    with pytest.raises(UserError, match="no finite weight"):
        problem.batch(0)
