"""Trainings that one process and two ranks of torchrun do alike: imported by tests, and started by them."""

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch

import boltzkit.training.loop as loop
from boltzkit.data import EpochBatches, LabelledData
from boltzkit.energy import GaussianMixture, Target
from boltzkit.errors import Interrupted, UserError
from boltzkit.flow import Flow, RealNVPConfig, build_realnvp
from boltzkit.method import ObjectiveConfig, RunConfig, build_problem, fit
from boltzkit.method.annealing import AnnealingConfig
from boltzkit.method.biased.config import ImportanceConfig
from boltzkit.method.biased.importance import importance_set
from boltzkit.method.fab import FabConfig
from boltzkit.method.validation import Validation
from boltzkit.objective import (
    Batch,
    ForwardKL,
    LogDispersion,
    ModelBatch,
    Objective,
    PathGradientForwardKL,
    ReverseKL,
)
from boltzkit.randomness import generator
from boltzkit.ranks import (
    by_first_rank,
    gather_ranks,
    is_first_rank,
    join_ranks,
    of_first_rank,
    rank_count,
    rank_number,
    spread_over_ranks,
)
from boltzkit.training import (
    LearnedCentre,
    Problem,
    RunFolder,
    TrainingConfig,
    TrainState,
    train,
    train_step,
)

Numbers = dict[str, torch.Tensor]


def target() -> Target:
    return GaussianMixture.hypercube(3, 0.5)


def flow(*seeds: int, hidden: tuple[int, ...] = (12,), **settings: Any) -> Flow:
    built = build_realnvp(
        RealNVPConfig(layers=3, hidden=hidden, **settings), 3, seeds or (0,), len(seeds) > 1
    ).double()
    with torch.no_grad():  # away from the identity, so that every gradient is there
        for number, parameter in enumerate(built.parameters()):
            parameter.add_(0.1 * torch.randn(parameter.shape, generator=generator(1, "start", number)))
    return built


def data(n: int, purpose: str, replicas: tuple[int, ...] = ()) -> LabelledData:
    x = target().sample(n * (replicas or (1,))[0], generator(0, purpose)).double()
    return LabelledData.label(x.reshape(*replicas, n, 3), target(), gradients=True)


def steps_of(problem: Problem, config: TrainingConfig) -> Numbers:
    """Return loss and gradient of the first step, and what the last one leaves."""
    state = TrainState.start(problem.flow, config, problem.centre)
    found: Numbers = {}
    for step in range(config.steps):
        reference = None if problem.reference is None else problem.reference(step)
        state, info = train_step(state, problem.objective, config, problem.batch(step), reference)
        if step == 0:
            found = {
                "loss": info.loss.total.detach(),
                "norm": info.gradient_norm,
                "left out": info.loss.left_out,
            }
            for name, parameter in state.modules.named_parameters():
                if parameter.grad is not None:
                    found[f"gradient {name}"] = parameter.grad.clone()
    everyone = gather_ranks(torch.cat([p.detach().reshape(1, -1) for p in state.modules.parameters()], 1))
    assert (everyone == everyone[0]).all(), "ranks have the same weights to the last bit"
    return found | {f"end {name}": value.clone() for name, value in state.modules.state_dict().items()}


def settings(steps: int, **changes: Any) -> TrainingConfig:
    return TrainingConfig(**({"steps": steps, "batch": 33, "learning_rate": 3e-3, "clip": 5.0} | changes))


def ldr(steps: int = 100, dtype: torch.dtype = torch.float64, **changes: Any) -> Numbers:
    """The forward KL and LDR-L1; an odd batch, so that ranks have shares of different size."""
    config = settings(steps, **changes)
    batches = EpochBatches(data(200, "training").to("cpu", dtype), config.batch, (0,))
    objective = Objective(ForwardKL(), LogDispersion(p=1.0), 0.7)
    return steps_of(Problem(flow().to(dtype), objective, target(), batches), config)


def float32() -> Numbers:
    return ldr(1, torch.float32)


def batch_norm() -> Numbers:
    """Two replicas whose statistics are those of the whole batch, with gradients."""
    batches = EpochBatches(data(80, "replicas", (2,)), 33, (0, 1))
    model = flow(0, 1, hidden=(8, 8))
    return steps_of(
        Problem(model, Objective(ForwardKL(), LogDispersion(2.0)), target(), batches), settings(2)
    )


def path_gradient(**changes: Any) -> Numbers:
    model = flow(hidden=(8, 8), statistics="running") if not changes else flow()
    batches = EpochBatches(data(80, "training"), 33, (0,))
    objective = Objective(PathGradientForwardKL(), LogDispersion.huber(0.5))
    return steps_of(Problem(model, objective, target(), batches), settings(2, **changes))


def mixture(**changes: Any) -> Numbers:
    """Weighted data, a reference of another size with its share, a learned centre; some samples are left out."""
    labelled = data(33, "weighted")
    weights = torch.rand(33, generator=generator(0, "weights"), dtype=torch.float64)
    energy = labelled.energy.clone()
    energy[[2, 30]] = torch.inf
    batch = Batch(labelled.x, energy, weights=weights)
    other = data(15, "reference")
    objective = Objective(ForwardKL(), LogDispersion(1.5), reference_share=0.3)
    reference = lambda step: Batch(other.x, other.energy)  # noqa: E731
    problem = Problem(flow(), objective, target(), lambda step: batch, reference, LearnedCentre().double())
    return steps_of(problem, settings(2, **changes))


def reverse_kl(**changes: Any) -> Numbers:
    model, energy = flow(), target()
    objective = Objective(ReverseKL(drop_highest=4), LogDispersion(1.0), dispersion_weight=0.3)

    def draw(step: int) -> ModelBatch:
        return ModelBatch(model.latent(33, generator(0, "draw", step)), energy)

    problem = Problem(model, objective, energy, draw)
    config = settings(5, **changes)
    state = train(problem, config)
    content = {k: v for k, v in state.tensors().items() if k.startswith("modules")}
    return content | {"evaluations": torch.tensor(state.evaluations)}


def without_data(steps: int, **method: Any) -> Numbers:
    config = RunConfig(
        flow=RealNVPConfig(layers=3, hidden=(12, 12), statistics="running"),
        objective=ObjectiveConfig(dispersion="l1", data_weight=0.3),
        training=settings(steps, validate_every=steps),
        **method,
    )
    problem = build_problem((config,), batched=False)
    problem.flow.double()
    lines: list[dict[str, Any]] = []
    # Validation samples are in single precision.
    problem = Problem(problem.flow, problem.objective, problem.target, problem.batch)
    state = train(problem, config.training, watch=lambda line, total: lines.append(line))
    found = {k: v.clone() for k, v in state.tensors().items() if k.startswith(("modules", "memory"))}
    figures = lines[-1] if lines else {}
    plain = {
        k: torch.tensor(v, dtype=torch.float64) for k, v in figures.items() if k not in ("seconds", "step")
    }
    return (
        found
        | {f"figure {k}": v for k, v in plain.items()}
        | {"evaluations": torch.tensor(state.evaluations)}
    )


def cmt() -> Numbers:
    # 601 evaluations: shares of stages and of ranks are odd.
    annealing = AnnealingConfig(
        stages=4, evaluations=1201, hottest=2.0, reuse=2, effective=150, averaged=True
    )
    return without_data(100, annealing=annealing)


def fab() -> Numbers:
    settings = FabConfig(annealed=41, first=7, updates=2, intermediate=2, leaps=2, evaluations=41 * 5 * 9)
    return without_data(8, fab=settings)


def validation() -> Numbers:
    model = flow(0, 1).eval()
    samples = data(51, "validation", (2,))
    with torch.no_grad():
        return Validation(samples.x)(model)


def importance() -> Numbers:
    energy = target()
    settings = ImportanceConfig(samples=10_001)  # one chunk, and one sample
    drawn = importance_set(flow().float().eval(), energy, settings, 0, None)
    return {
        "x": drawn.x,
        "energy": drawn.energy,
        "log_weight": drawn.weights.values,
        "evaluations": torch.tensor([energy.evaluations, drawn.energy_evaluations]),
    }


def exchanges() -> Numbers:
    """The small tools: few rows, truth values, words and errors of the first rank."""
    few, truth = spread_over_ranks(lambda rows: (2 * rows, rows > 0), torch.ones(1, 2))
    none = spread_over_ranks(lambda rows: (rows,), torch.zeros(3, 5), axis=1)[0]
    assert by_first_rank(lambda: ["a", 1.5, None]) == ["a", 1.5, None]
    assert of_first_rank(rank_number()) == 0
    if rank_count() > 1:
        assert gather_ranks(torch.tensor([rank_number()])).tolist() == [0, 1]
        with pytest.raises(UserError, match="of the first"):
            by_first_rank(refuse)
    return {"few": few, "truth": truth, "none": none}


def refuse() -> None:
    raise UserError("A sentence of the first.")


CASES: dict[str, Callable[[], Numbers]] = {
    "ldr": ldr,
    "float32": float32,
    "batch_norm": batch_norm,
    "path_gradient": path_gradient,
    "mixture": mixture,
    "reverse_kl": reverse_kl,
    "cmt": cmt,
    "fab": fab,
    "validation": validation,
    "importance": importance,
    "exchanges": exchanges,
    "ldr in parts": lambda: ldr(2, accumulate=3),
    "reverse_kl in parts": lambda: reverse_kl(accumulate=3),
}

RUN = RunConfig().with_overrides(
    [
        "flow.layers=2", "flow.hidden=[8, 8]", "data.samples=40", "data.validation_samples=21",
        "objective.dispersion=l1", "objective.centre=learned", "training.steps=40", "training.batch=16",
        "training.ema=0.9", "training.log_every=5", "training.validate_every=20", "training.checkpoint_every=10",
    ]
)  # fmt: skip


def at_step(step: int, act: Callable[[], None]) -> None:
    """Let something happen right before a step of any training."""
    inner = loop.train_step

    def watched(state: TrainState, *arguments: Any) -> Any:
        if state.step == step:
            act()
        return inner(state, *arguments)

    loop.train_step = watched


def send(number: int) -> None:
    os.kill(os.getpid(), number)


def go_on(folder: Path, stop_at: int | None = None) -> tuple[int, list[str]]:
    """Train in a folder, or go on; the last rank asks itself to stop. Returns the step it ended at, and remarks."""
    inner = loop.train_step
    if stop_at is not None and rank_number() == rank_count() - 1:
        at_step(stop_at, lambda: send(signal.SIGTERM))
    config = settings(60, checkpoint_every=1000)
    batches = EpochBatches(data(200, "training"), config.batch, (0,))
    problem = Problem(flow(), Objective(ForwardKL(), LogDispersion(p=1.0)), target(), batches)
    run = RunFolder(folder)
    remarks = by_first_rank(lambda: run.open(config, 0, "cpu"))
    try:
        return train(problem, config, run).step, remarks
    except Interrupted as stopped:
        return int(str(stopped).split()[3]), remarks
    finally:
        loop.train_step = inner


def main(what: str, out: Path) -> None:
    """Be one of the ranks."""
    if what == "all":
        with join_ranks():
            if os.environ["TORCHELASTIC_RESTART_COUNT"] == "0" and rank_number() == 1:
                at_step(25, lambda: send(signal.SIGKILL))
            fit(RUN, out / "killed")
            assert os.environ["TORCHELASTIC_RESTART_COUNT"] == "1", "killed once, and not more"
            for name, case in CASES.items():
                found = case()
                if is_first_rank():
                    safetensors.torch.save_file(
                        {k: v.contiguous() for k, v in found.items()}, out / f"{name}.safetensors"
                    )
            step, remarks = go_on(out / "resumed", stop_at=40)
            (out / f"stopped-{rank_number()}").write_text("\n".join([str(step), *remarks]))
            fit(RUN, out / "whole")
    if what == "error":
        from boltzkit.cli import main as command

        if os.environ["RANK"] == "1":
            at_step(3, refuse)
        (out / "config.json").write_text(RUN.model_dump_json())
        sys.exit(command(["train", str(out / "config.json"), "--out", str(out / "refused")]))


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(sys.argv[1], Path(sys.argv[2]))
