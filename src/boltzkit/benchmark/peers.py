"""Whole trainings beside other libraries: the same samples, steps and batches, about as many parameters."""

import statistics
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch

from boltzkit.benchmark.peer_flows import PEERS, Lesson, Peer, Trained
from boltzkit.benchmark.timing import on_threads
from boltzkit.energy import Target
from boltzkit.flow import RealNVPConfig, SplineFlowConfig
from boltzkit.method import ObjectiveConfig, RunConfig, fit, gmm, many_well
from boltzkit.method.system import build_energy
from boltzkit.randomness import generator
from boltzkit.report import csv_text, markdown_table
from boltzkit.storage import write_bytes
from boltzkit.weights import LogWeights

__all__ = ["TASKS", "PeerBenchmark", "PeerResult", "Task", "benchmark_peers"]

OWN = "boltzkit"
_NOTE = (
    "Mean ± standard deviation over seeds, each with its own training samples, start and order. Seconds are those of "
    "one core: medians over seeds, contenders in turn, and in brackets the median multiple of boltzkit's forward KL. "
    "NLL gap: mean of log p − log q over 10,000 fresh samples of the target, an estimate of KL(p‖q). ESS: of samples "
    "of the flow, all weights as they are. normflows: flow, optimiser and constant rate of its RealNVP notebook; zuko: "
    "those of its README, with two hidden layers instead of three; both with the width set for about as many "
    "parameters. boltzkit: rate and cosine schedule of its recipe, whose time includes files; the peers have no "
    "schedule. LDR-L1 has λ_data = 0.3 everywhere. Steps are fewer than in boltzkit's recipes and in normflows' "
    "notebook, and nobody was tuned for these tasks."
)


@dataclass(frozen=True)
class Task:
    """A target with what is learned of it.

    Args:
        title: how tables call it.
        config: boltzkit's run with a RealNVP, whose number of parameters all others come near to.
        splines: boltzkit's other flow.
    """

    title: str
    config: RunConfig
    splines: SplineFlowConfig


def _task(
    title: str, config: RunConfig, flow: RealNVPConfig, splines: SplineFlowConfig, steps: int, batch: int
) -> Task:
    training = config.training.model_copy(
        update={"steps": steps, "batch": batch, "validate_every": steps, "checkpoint_every": steps}
    )
    return Task(title, config.model_copy(update={"training": training, "flow": flow}), splines)


TASKS: dict[str, Task] = {
    "gmm": _task(
        "Gaussian mixture, 2 dims, 500 samples",
        gmm(),
        RealNVPConfig(),
        SplineFlowConfig(pairs=6, hidden=(170, 170)),
        750,
        50,
    ),
    "many-well": _task(
        "many-well, 8 dims, 5,000 samples",
        many_well(),
        RealNVPConfig(layers=10, hidden=(64, 64)),
        SplineFlowConfig(pairs=4, hidden=(43, 43)),
        750,
        250,
    ),
}
"""Tasks by name."""


@dataclass(frozen=True)
class PeerResult:
    """One training: what it took and how good it is."""

    task: str
    contender: str
    seed: int
    parameters: int
    seconds: float
    nll_gap: float
    ess: float


@dataclass(frozen=True)
class PeerBenchmark:
    """All trainings of one run."""

    tasks: Mapping[str, Task]
    descriptions: Mapping[str, str]
    results: tuple[PeerResult, ...]

    def of(self, task: str, contender: str) -> list[PeerResult]:
        """Return the seeds of one contender at one task."""
        return [one for one in self.results if (one.task, one.contender) == (task, contender)]

    def seconds(self, task: str, contender: str) -> float:
        """Return the median over seeds."""
        return statistics.median(one.seconds for one in self.of(task, contender))

    def ratio(self, task: str, contender: str) -> float:
        """Return how many times as long as boltzkit's forward KL, seed by seed, the median of these."""
        pairs = zip(self.of(task, contender), self.of(task, OWN), strict=True)
        return statistics.median(one.seconds / own.seconds for one, own in pairs)

    def to_csv(self) -> str:
        """Return one line per training."""
        rows = []
        for r in self.results:
            numbers = (f"{r.seconds:.2f}", f"{r.nll_gap:.5f}", f"{r.ess:.5f}")
            rows.append([r.task, r.contender, r.seed, r.parameters, *numbers])
        return csv_text(["task", "contender", "seed", "parameters", "seconds", "nll_gap", "ess"], rows)

    def to_markdown(self) -> str:
        """Return one table per task."""
        head = ["contender", "flow and objective", "parameters", "NLL gap ↓", "ESS / % ↑", "seconds"]
        parts = []
        for key, task in self.tasks.items():
            training = task.config.training
            table = markdown_table(head, (self._row(key, name) for name in self.descriptions))
            parts.append(f"{task.title}; {training.steps:,} steps of {training.batch}:\n\n{table}")
        return "\n".join(parts)

    def _row(self, task: str, contender: str) -> list[str]:
        members = self.of(task, contender)
        return [
            contender,
            self.descriptions[contender],
            f"{members[0].parameters:,}",
            _spread([one.nll_gap for one in members], 4),
            _spread([100 * one.ess for one in members], 1),
            f"{self.seconds(task, contender):.1f} ({self.ratio(task, contender):.1f}×)",
        ]

    def write(self, out: Path) -> None:
        """Write table.md and table.csv."""
        text = f"# Whole trainings beside other libraries\n\n{self.to_markdown()}\n{_NOTE}\n"
        write_bytes(out / "table.md", text.encode())
        write_bytes(out / "table.csv", self.to_csv().encode())


def benchmark_peers(
    seeds: Sequence[int] = (0, 1),
    tasks: Mapping[str, Task] = TASKS,
    peers: Mapping[str, Peer] = PEERS,
    samples: int = 20_000,
    tell: Callable[[str], None] = lambda text: None,
) -> PeerBenchmark:
    """Train every contender on every task, in turn, and judge all of them alike.

    Args:
        seeds: one whole training each.
        tasks: what to learn.
        peers: contenders besides boltzkit.
        samples: of each flow, for the ESS; the NLL takes 10,000 of the target.
        tell: takes progress.
    """
    results = []
    with on_threads(1), torch.random.fork_rng():
        for key, task in tasks.items():
            own, target = _own(task), build_energy(task.config.target)
            for seed in seeds:
                lesson = _lesson(task.config, target, seed)
                for name, peer in {**own, **peers}.items():
                    tell(f"{task.title}, seed {seed}: {name}")
                    start = time.process_time()
                    trained = peer.train(lesson)
                    seconds = time.process_time() - start
                    gap, ess = _judged(trained, target, samples)
                    results.append(PeerResult(key, name, seed, trained.parameters, seconds, gap, ess))
        descriptions = {name: peer.description for name, peer in {**own, **peers}.items()}
    return PeerBenchmark(tasks, descriptions, tuple(results))


def _own(task: Task) -> dict[str, Peer]:
    """Return boltzkit's rows: each flow with and without the regulariser."""
    regularised = ObjectiveConfig(dispersion="l1", data_weight=0.3, warm_up=task.config.training.steps // 10)
    realnvp, splines = task.config, task.config.model_copy(update={"flow": task.splines})
    couplings = 2 * task.splines.pairs
    rows = {
        OWN: ("RealNVP, forward KL", realnvp, ObjectiveConfig()),
        f"{OWN} with LDR-L1": ("RealNVP, forward KL + LDR-L1", realnvp, regularised),
        f"{OWN}, splines": (f"{couplings} spline couplings, forward KL", splines, ObjectiveConfig()),
        f"{OWN}, splines with LDR-L1": ("the same flow, forward KL + LDR-L1", splines, regularised),
    }
    return {
        name: Peer(description, partial(_fit, config.model_copy(update={"objective": objective})))
        for name, (description, config, objective) in rows.items()
    }


def _fit(config: RunConfig, lesson: Lesson) -> Trained:
    """Train by the recipe, whose samples are the lesson's, because both are drawn from the same seed."""
    with tempfile.TemporaryDirectory() as folder:
        model, _ = fit(config.model_copy(update={"seed": lesson.seed}), Path(folder) / "run")
    count = sum(parameter.numel() for parameter in model.flow.parameters())
    return Trained(model.log_prob, model.sample, count)


def _lesson(config: RunConfig, target: Target, seed: int) -> Lesson:
    data = config.model_copy(update={"seed": seed})
    x = target.sample(config.data.samples, generator(data.seed, "training data"))
    return Lesson(
        x.float(),
        target(x).float(),
        config.training.steps,
        config.training.batch,
        _size(config),
        seed,
    )


def _size(config: RunConfig) -> int:
    """Return the number of parameters of boltzkit's flow."""
    from boltzkit.method import Model

    return sum(parameter.numel() for parameter in Model.untrained(config).flow.parameters())


def _judged(trained: Trained, target: Target, samples: int) -> tuple[float, float]:
    """Return the NLL gap on samples of the target and the ESS on samples of the flow."""
    x = target.sample(10_000, generator(1_000_003, "test data of the peers"))
    log_z = target.log_z
    assert log_z is not None, "the tasks have a known log Z"
    gap = (-target(x) - log_z - trained.log_prob(x.float()).double()).mean()
    drawn, log_prob = trained.sample(samples)
    weights = LogWeights.from_samples(log_prob.double(), target(drawn.double()))
    return float(gap), weights.ess_fraction


def _spread(values: Sequence[float], digits: int) -> str:
    mean = f"{statistics.fmean(values):.{digits}f}"
    return mean if len(values) < 2 else f"{mean} ± {statistics.stdev(values):.{digits}f}"
