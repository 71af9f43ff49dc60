"""Annealed training: the budget to the unit, exact resume, what is held out, weights across buffers, and the result."""

import json
import math

import pytest
import torch

from boltzkit.energy import TargetConfig, build_target
from boltzkit.ensemble import draw
from boltzkit.errors import TrainingFailed, UserError
from boltzkit.flow import RealNVPConfig
from boltzkit.method import ObjectiveConfig, RunConfig, build_problem, fit, load
from boltzkit.method.annealing import AnnealingConfig, Waypoint
from boltzkit.method.annealing.buffer import Buffer, Lesson, Weighed, combine, effective, furthest
from boltzkit.method.annealing.pretraining import Tempered
from boltzkit.method.fit import check_config
from boltzkit.randomness import generator
from boltzkit.training import TrainingConfig, train


def config(*, stages: int = 5, evaluations: int = 2003, steps: int = 50, **changes) -> RunConfig:
    annealing = AnnealingConfig(stages=stages, evaluations=evaluations, hottest=2.0, **changes)
    return RunConfig(
        target=TargetConfig(name="gmm"),
        flow=RealNVPConfig(layers=6, hidden=(32, 32), statistics="running"),
        objective=ObjectiveConfig(dispersion="l1", data_weight=0.3),
        annealing=annealing,
        training=TrainingConfig(
            steps=steps,
            batch=64,
            learning_rate=2e-3,
            warm_up=10,
            log_every=1,
            validate_every=10,
            checkpoint_every=7,
        ),
    )


@pytest.mark.parametrize(("evaluations", "growth"), [(2003, 1.0), (999, 1.0), (2003, 4.0)])
def test_the_budget_is_kept_to_the_unit(evaluations, growth):
    settings = config(evaluations=evaluations, growth=growth)
    problem = build_problem((settings,), batched=False)
    seen, energy = [], problem.target._energy

    def counted(x):
        seen.append(len(x))
        return energy(x)

    problem.target._energy = counted
    state = train(problem, settings.training)
    assert sum(seen) == evaluations
    assert state.evaluations == evaluations


@pytest.mark.parametrize("averaged", [False, True])
def test_a_stopped_stage_goes_on_bit_for_bit(averaged, tmp_path):
    settings = config(reuse=2, averaged=averaged)
    whole, _ = fit(settings, tmp_path / "whole")

    class Stopped(Exception):
        pass

    def stop(line, steps):
        if line["step"] in (12, 33):  # in the middle of a stage, between two checkpoints
            raise Stopped

    for _ in range(2):
        with pytest.raises(Stopped):
            fit(settings, tmp_path / "parts", stop)
    resumed, _ = fit(settings, tmp_path / "parts")
    ours, theirs = resumed.flow.state_dict(), whole.flow.state_dict()
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)
    # Control: another seed gives other weights.
    other = load(tmp_path / "whole").config.model_copy(update={"seed": 1})
    elsewhere = fit(other, tmp_path / "other")[0].flow.state_dict()
    assert not all(torch.equal(elsewhere[name], theirs[name]) for name in theirs)


@pytest.mark.parametrize("resampled", [True, False])
def test_what_is_held_out_is_never_learned_from(resampled):
    batches = build_problem((config(held_out=0.25, resampled=resampled),), batched=False).batch
    learned = torch.cat([batches(step).x for step in range(10)])
    newest = batches.buffers[-1].x
    held = newest[len(newest) - int(0.25 * len(newest)) :]
    assert len(held) == 100
    assert not torch.isin(held[:, 0], learned[:, 0]).any()
    # Control: the others are; drawn by weight, the heavy ones.
    seen = torch.isin(newest[:200, 0], learned[:, 0]).double().mean()
    assert seen > (0.3 if resampled else 0.9)
    assert (batches(9).weights is None) == resampled


def test_memory_compares_within_one_buffer():
    settings = config(reuse=2)
    batches = build_problem((settings,), batched=False).batch
    batches(0)
    learned, held = batches._split()
    memory = batches.figures(batches.flow)["memory_nll"]
    assert abs(memory) < 1  # an untrained flow remembers nothing
    # An older buffer of another place takes no part in it.
    old, place = batches.buffers[0], batches.buffers[0].x + 10.0
    batches.buffers = [old._replace(x=place), old]
    batches.lesson = Lesson(*(torch.cat(pair) for pair in zip(learned, batches.lesson, strict=True)))
    batches.lesson = batches.lesson._replace(x=torch.cat([place[: len(learned.x)], old.x]))
    assert batches.figures(batches.flow)["memory_nll"] == memory
    assert len(batches._split()[1].x) == len(held.x)


def test_a_batch_drawn_by_weight_is_a_sample_of_the_target():
    """The mean square over resampled batches is that of the weighted buffer."""
    batches = build_problem((config(evaluations=20_000, resampled=True),), batched=False).batch
    x = torch.cat([batches(step).x for step in range(10)]).double()  # the first stage
    learned, _ = batches._split()
    share = learned.weights / learned.weights.sum()
    square = learned.x.double().square().sum(-1)
    mean = float((share * square).sum())
    error = float(x.square().sum(-1).std()) / math.sqrt(len(x))
    assert abs(float(x.square().sum(-1).mean()) - mean) < 4 * error
    # Control: without weights the mean is another one.
    assert abs(float(square.mean()) - mean) > 4 * error


def test_a_stage_begins_with_the_average_of_the_last_steps():
    """Parameters that rise by one a step: their mean, by the ninth power of the step, is ten elevenths of the last."""
    settings = config(stages=2, steps=2_000, averaged=True, restarts=0)
    batches = build_problem((settings,), batched=False).batch
    parameters = list(batches.flow.parameters())
    with torch.no_grad():
        batches(0)
        start = [parameter.clone() for parameter in parameters]
        for step in range(1, 1001):
            for parameter, first in zip(parameters, start, strict=True):
                parameter.copy_(first + 1e-3 * step)
            batches(step)
    assert batches.stage == 1
    for parameter, first in zip(parameters, start, strict=True):
        assert torch.allclose(parameter - first, torch.tensor(10 / 11), atol=0.01)
    assert not batches.average


def gaussian_buffer(scale: float, n: int, seed: int) -> Buffer:
    """Samples of a wider normal distribution, with energies of the standard one."""
    x = scale * torch.randn(n, 1, generator=generator(seed, "buffer"), dtype=torch.float64)
    log_prob = -0.5 * (x[:, 0] / scale) ** 2 - math.log(scale * math.sqrt(2 * math.pi))
    return Buffer(x, 0.5 * x[:, 0] ** 2, log_prob, n)


def test_old_buffers_are_weighted_by_what_drew_them():
    old, new = gaussian_buffer(3.0, 20_000, 0), gaussian_buffer(1.5, 10_000, 1)
    lesson = combine([Weighed(part, part.log_prob) for part in (old, new)], Waypoint(1.0, 1.0))
    x = lesson.x[:, 0]
    weighted = float((lesson.weights * x**2).mean())
    error = float((lesson.weights * (x**2 - 1)).std()) / math.sqrt(len(x))
    assert abs(weighted - 1) < 4 * error
    assert lesson.effective > gaussian_effective(new)
    # Control: without weights the variance is that of the buffers.
    assert float((x**2).mean()) > 3


def test_the_largest_weights_may_be_clipped():
    """Ten samples of a narrow flow that lie far out would be all there is."""
    narrow = gaussian_buffer(0.5, 20_000, 0)
    narrow.x[:10], narrow.energy[:10], narrow.log_prob[:10] = 3.0, 4.5, -18.0
    weighed = [Weighed(narrow, narrow.log_prob)]
    free, clipped = (combine(weighed, Waypoint(1.0, 1.0), clip) for clip in (0.0, 1e-3))
    assert free.effective < 15
    assert clipped.effective > 500
    assert clipped.weights.mean() == pytest.approx(1.0)
    top = clipped.weights.topk(20).values
    assert torch.equal(top, top[:1].expand(20))  # 10⁻³ of 20,000
    assert clipped.weights.topk(21).values[-1] < top[0]


def test_many_samples_reach_further():
    """A normal distribution of width 3 and its target of width 1: the effective number is known for every exponent."""
    wide = gaussian_buffer(3.0, 200_000, 2)
    weighed = [Weighed(wide, wide.log_prob)]
    start = Waypoint(1e-3, 1.0)

    def exact(exponent: float) -> float:
        """Return (∫ q'²/q)⁻¹ for normal densities of precision a and 1/9."""
        a = (1 - exponent) / 9 + exponent
        return math.sqrt((2 * a - 1 / 9) / 9) / a

    for exponent in (0.1, 0.5, 1.0):
        found = effective(weighed, start._replace(exponent=exponent)) / 200_000
        assert abs(found - exact(exponent)) < 0.02
    enough = 200_000 * exact(0.4)
    assert abs(furthest(weighed, start, enough).exponent - 0.4) < 0.05
    assert furthest(weighed, start, 1_000).exponent == 1.0
    # Control: where even the first step leaves too few, the exponent stays.
    assert abs(furthest(weighed, start, 300_000).exponent - start.exponent) < 1e-6


def gaussian_effective(buffer: Buffer) -> float:
    weights = torch.softmax(-buffer.energy - buffer.log_prob, 0)
    return float(1 / weights.square().sum())


def test_a_mixture_is_learned_from_its_energy_alone():
    settings = config(stages=12, evaluations=30_000, steps=480)
    problem = build_problem((settings,), batched=False)
    train(problem, settings.training)
    target = build_target(settings.target)
    found = draw(problem.flow.eval(), target, 20_000, seed=5)
    summary = found.reweighting
    assert summary.ess_raw > 0.8
    assert abs(summary.log_z - target.log_z) < 4 * summary.log_z_se
    modes = {(bool(a), bool(b)) for a, b in (found.x > 0).tolist()}
    assert len(modes) == 4


def narrow(**changes) -> RunConfig:
    """Return a run towards a target a tenth as wide as the flow's start, in ten dimensions."""
    settings = config(stages=10, evaluations=10_000, steps=400, cooling=0.1, **changes)
    return settings.model_copy(update={"target": TargetConfig(name="harmonic", dim=10, scale=0.1)})


def first_effective(settings: RunConfig) -> float:
    batches = build_problem((settings,), batched=False).batch
    batches(0)
    return batches.lesson.effective


def test_without_a_trust_region_a_narrow_target_fails():
    assert first_effective(narrow()) > 300
    # The control: all weight lies on a few samples, and most batches have none of it.
    unbound = narrow(trust=None, resampled=False)
    assert first_effective(unbound) < 10
    with pytest.raises(TrainingFailed):
        train(build_problem((unbound,), batched=False), unbound.training)


def test_buffers_need_a_density():
    settings = config().model_copy(update={"flow": RealNVPConfig(layers=2, hidden=(8, 8))})
    with pytest.raises(UserError, match="statistics=running"):
        check_config(settings)


def test_pretraining_is_part_of_the_budget_and_of_the_resume(tmp_path):
    settings = config(path="temperature", trust=None, pretraining=20, dropped=5, evaluations=3000)
    settings = settings.model_copy(
        update={"training": settings.training.model_copy(update={"learning_rate": 1e-3})}
    )
    whole, _ = fit(settings, tmp_path / "whole")
    lines = [json.loads(line) for line in (tmp_path / "whole" / "metrics.jsonl").read_text().splitlines()]
    assert lines[-1]["evaluations"] == 3000

    class Stopped(Exception):
        pass

    def stop_at(where: str, step: int):
        def stop(line, steps):
            if line["step"] == step and ("exponent" in line) == (where == "annealing"):
                raise Stopped

        return stop

    for where, step in (("pretraining", 11), ("annealing", 30)):
        with pytest.raises(Stopped):
            fit(settings, tmp_path / "parts", stop_at(where, step))
    resumed, _ = fit(settings, tmp_path / "parts")
    ours, theirs = resumed.flow.state_dict(), whole.flow.state_dict()
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)


def test_tempered_energies_count_once():
    target = build_target(TargetConfig(name="gmm"))
    hot = Tempered(target, 4.0)
    x = torch.zeros(7, 2)
    assert torch.allclose(4 * hot(x), target(x))
    assert hot.evaluations == target.evaluations == 14


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"steps": 4}, "4 steps are too few for 5 stages"),
        ({"steps": 4, "first_steps": 2}, "4 steps are too few for 5 stages"),
        ({"evaluations": 9}, "9 evaluations are too few"),
        ({"evaluations": 200, "growth": 1000.0}, "the smallest would have 0: raise"),
    ],
)
def test_too_little_for_the_stages_is_refused(changes, sentence):
    with pytest.raises(UserError, match=sentence):
        build_problem((config(**changes),), batched=False)


def test_a_buffer_without_samples_counts_nothing():
    full, empty = gaussian_buffer(3.0, 1000, 0), gaussian_buffer(3.0, 0, 0)
    weighed = [Weighed(part, part.log_prob) for part in (empty, full)]
    start = Waypoint(1e-3, 1.0)
    assert effective(weighed, start) == effective(weighed[1:], start)
    assert furthest(weighed, start, 990) == furthest(weighed[1:], start, 990)
