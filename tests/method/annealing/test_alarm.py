"""What an annealed run says against itself, and stages that are undone."""

import math

import pytest
import torch

from boltzkit.flow import RealNVPConfig
from boltzkit.method import ObjectiveConfig, RunConfig, build_problem
from boltzkit.method.annealing import AnnealingConfig
from boltzkit.method.annealing.alarm import alarms, lost_share, made_worse
from boltzkit.method.annealing.buffer import Lesson
from boltzkit.randomness import generator
from boltzkit.training import TrainingConfig, train


def two_modes(share: float, n: int = 50_000) -> Lesson:
    """Samples of a mixture of normal distributions at ±5, with equal weights."""
    draw = generator(0, "two modes")
    right = torch.rand(n, generator=draw, dtype=torch.float64) < share
    x = torch.randn(n, 1, generator=draw, dtype=torch.float64) + torch.where(right, 5.0, -5.0)[:, None]
    return Lesson(x, -log_mixture(x, share), torch.ones(n, dtype=torch.float64))


def log_mixture(x: torch.Tensor, share: float) -> torch.Tensor:
    normal = torch.stack([-0.5 * (x[:, 0] - 5) ** 2, -0.5 * (x[:, 0] + 5) ** 2])
    weights = torch.tensor([[share], [1 - share]], dtype=torch.float64).log()
    return torch.logsumexp(normal + weights, 0) - 0.5 * math.log(2 * math.pi)


@pytest.mark.parametrize("share", [0.1, 0.4])
def test_a_lost_mode_is_seen_with_its_share(share):
    lesson = two_modes(share)
    found = lost_share(lesson, log_mixture(lesson.x, 1e-6))
    assert abs(found - share) < 4 * math.sqrt(share * (1 - share) / len(lesson.x))
    # Controls: a flow that has learned everything has lost nothing, nor has one that is twofold off in a mode.
    assert lost_share(lesson, log_mixture(lesson.x, share)) == 0
    assert lost_share(lesson, log_mixture(lesson.x, share / 2)) == 0


def test_weights_decide_how_much_is_lost():
    lesson = two_modes(0.5)
    right = lesson.x[:, 0] > 0
    lighter = lesson._replace(weights=torch.where(right, 0.2, 1.8).double())
    assert abs(lost_share(lighter, log_mixture(lesson.x, 1e-6)) - 0.1) < 0.01


def test_a_place_outside_the_support_is_lost():
    lesson = two_modes(0.3)
    log_prob = torch.where(lesson.x[:, 0] > 0, -math.inf, log_mixture(lesson.x, 0.3))
    assert abs(lost_share(lesson, log_prob) - 0.3) < 0.01


def test_harm_is_a_fall_of_the_exponent_or_samples_without_energy():
    assert made_worse(0.4, 0.05, 0.0)
    assert made_worse(0.4, 0.4, 0.6)
    assert not made_worse(0.4, 0.2, 0.1)


def test_metrics_become_words():
    fine = [{"lost_share": 0.0, "restarts": 0.0, "validation_nll": 3.0 - step} for step in range(3)]
    assert alarms(fine) == []
    wrong = [*fine, {"lost_share": 0.11, "restarts": 2.0, "validation_nll": 4.0}]
    said = alarms(wrong)
    assert len(said) == 3
    assert "11.0 %" in said[0]
    assert "had been 1.00" in said[1]
    assert "2 stages" in said[2]


def spoilt(restarts: int):
    """Train, with a flow whose parameters are thrown about in the middle of the second stage."""
    settings = RunConfig(
        flow=RealNVPConfig(layers=6, hidden=(32, 32), statistics="running"),
        objective=ObjectiveConfig(dispersion="l1", data_weight=0.3),
        annealing=AnnealingConfig(stages=5, evaluations=2003, hottest=2.0, restarts=restarts),
        training=TrainingConfig(steps=50, batch=64, learning_rate=2e-3, warm_up=10),
    )
    problem = build_problem((settings,), batched=False)
    batches, inner = problem.batch, problem.batch.__class__.__call__

    def throw(step: int):
        if step == 15:
            with torch.no_grad():
                for parameter in problem.flow.parameters():
                    parameter.add_(torch.randn(parameter.shape, generator=generator(1, "throw")))
        return inner(batches, step)

    problem.batch.__class__ = type(
        "Thrown", (batches.__class__,), {"__call__": lambda self, step: throw(step)}
    )
    train(problem, settings.training)
    return problem


def test_a_stage_that_did_harm_is_undone():
    undone, left = spoilt(3), spoilt(0)
    assert undone.batch.restarts >= 1
    assert undone.target.evaluations == left.target.evaluations == 2003
    # Control: where nothing is undone, the flow is still worse at the end.
    assert left.batch.restarts == 0
    assert undone.batch.buffers[-1].ess_fraction > 2 * left.batch.buffers[-1].ess_fraction
