"""Time and energy evaluations until a flow is good: whole trainings by several methods, judged while they run."""

import math
import statistics
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from boltzkit.benchmark.timing import on_threads
from boltzkit.method import ObjectiveConfig, RunConfig, fit, many_well
from boltzkit.method.annealing import AnnealingConfig
from boltzkit.report import csv_text, markdown_table
from boltzkit.storage import write_bytes
from boltzkit.training import RunFolder

__all__ = ["METHODS", "Reach", "ReachBenchmark", "benchmark_reach"]

_BARS = (0.5, 0.8, 0.9)
_NOTE = (
    "How long it takes to a forward ESS, that of 10,000 exact samples that nothing is learned from: median over seeds "
    "[lower quartile, upper quartile] of seconds on one thread, judgements included, and of energy evaluations. 'not "
    "reached' where a half of the seeds or more ends below. All methods train the same spline flow by as many steps. "
    "With data, 5,000 samples with their energies are given: their evaluations are counted as 5,000, or as none where "
    "the objective does not look at energies."
)


@dataclass(frozen=True)
class Reach:
    """One training: for each bar, when it was first met.

    Args:
        method: its name.
        seed: of the training.
        seconds: by bar; infinite where it was never met.
        evaluations: by bar.
    """

    method: str
    seed: int
    seconds: Mapping[float, float]
    evaluations: Mapping[float, float]


@dataclass(frozen=True)
class ReachBenchmark:
    """All trainings of one run."""

    title: str
    bars: Sequence[float]
    trainings: tuple[Reach, ...]

    def seconds(self, method: str, bar: float) -> float:
        """Return the median time over seeds; infinite where most of them never get there."""
        return statistics.median(one.seconds[bar] for one in self._of(method))

    def to_csv(self) -> str:
        """Return one line per training and bar."""
        return csv_text(
            ["method", "seed", "forward_ess", "seconds", "evaluations"],
            [
                [one.method, one.seed, bar, f"{one.seconds[bar]:.2f}", f"{one.evaluations[bar]:.0f}"]
                for one in self.trainings
                for bar in self.bars
            ],
        )

    def to_markdown(self) -> str:
        """Return one table."""
        head = [self.title, *(f"{100 * bar:.0f} %" for bar in self.bars)]
        methods = dict.fromkeys(one.method for one in self.trainings)
        return markdown_table(
            head, [[name, *(self._cell(name, bar) for bar in self.bars)] for name in methods]
        )

    def write(self, out: Path) -> None:
        """Write table.md and table.csv."""
        text = f"# Time and evaluations to a given ESS\n\n{self.to_markdown()}\n{_NOTE}\n"
        write_bytes(out / "table.md", text.encode())
        write_bytes(out / "table.csv", self.to_csv().encode())

    def _of(self, method: str) -> list[Reach]:
        return [one for one in self.trainings if one.method == method]

    def _cell(self, method: str, bar: float) -> str:
        if not math.isfinite(self.seconds(method, bar)):
            return "not reached"
        members = self._of(method)
        seconds, evaluations = (
            [getattr(one, name)[bar] for one in members] for name in ("seconds", "evaluations")
        )
        return f"{_spread(seconds, '.1f')} s, {_spread(evaluations, ',.0f')} evaluations"


def _methods() -> dict[str, RunConfig]:
    base = many_well().with_overrides(["training.steps=2000", "training.batch=256", "training.warm_up=50"])
    annealing = AnnealingConfig(evaluations=300_000, stages=20, reuse=4, hottest=2.0)
    plain, regularised = ObjectiveConfig(), ObjectiveConfig(dispersion="l1", data_weight=0.3)
    training = base.training.model_copy(update={"clip": 100.0})

    def on_data(objective: ObjectiveConfig) -> RunConfig:
        return base.model_copy(update={"objective": objective})

    def without_data(objective: ObjectiveConfig) -> RunConfig:
        changes = {"objective": objective, "annealing": annealing, "training": training}
        return base.model_copy(update=changes)

    return {
        "forward KL on data": on_data(plain),
        "path gradients on data": on_data(ObjectiveConfig(data="path_gradient")),
        "forward KL + LDR-L1 on data": on_data(regularised.model_copy(update={"warm_up": 200})),
        "path gradients + LDR-L1 on data": on_data(
            regularised.model_copy(update={"warm_up": 200, "data": "path_gradient"})
        ),
        "CMT": without_data(plain),
        "CMT + LDR-L1": without_data(regularised),
    }


METHODS: dict[str, RunConfig] = _methods()
"""Trainings on the eight-dimensional many-well by name."""


def benchmark_reach(
    seeds: Sequence[int] = (0, 1, 2),
    methods: Mapping[str, RunConfig] = METHODS,
    bars: Sequence[float] = _BARS,
    tell: Callable[[str], None] = lambda text: None,
) -> ReachBenchmark:
    """Train by every method in turn, seed after seed, and note when each bar is met for the first time.

    Args:
        seeds: one whole training each.
        methods: what to train.
        bars: forward ESS to reach.
        tell: takes progress.
    """
    trainings = []
    with on_threads(1), torch.random.fork_rng():
        for seed in seeds:
            for name, config in methods.items():
                tell(f"{name}, seed {seed}")
                trainings.append(_trained(name, config.model_copy(update={"seed": seed}), bars))
    return ReachBenchmark("many-well, 8 dims: to a forward ESS of", bars, tuple(trainings))


def _trained(name: str, config: RunConfig, bars: Sequence[float]) -> Reach:
    every = max(1, config.training.steps // 80)
    training = config.training.model_copy(update={"validate_every": every, "log_every": every})
    with tempfile.TemporaryDirectory() as folder:
        fit(config.model_copy(update={"training": training}), folder)
        lines = RunFolder(Path(folder)).metrics()
    given = 0 if config.objective == ObjectiveConfig() else config.data.samples
    seconds, evaluations = dict.fromkeys(bars, math.inf), dict.fromkeys(bars, math.inf)
    for line in reversed([line for line in lines if "validation_forward_ess" in line]):
        for bar in bars:
            if line["validation_forward_ess"] >= bar:
                seconds[bar] = line["seconds"]
                evaluations[bar] = given if config.annealing is None else line["evaluations"]
    return Reach(name, config.seed, seconds, evaluations)


def _spread(values: Sequence[float], digits: str) -> str:
    if len(values) < 2:
        return format(values[0], digits)
    # Between infinite values no quartile is a number.
    quartiles = statistics.quantiles(values, n=4, method="inclusive")
    low, middle, high = (math.inf if math.isnan(value) else value for value in quartiles)
    return f"{middle:{digits}} [{low:{digits}}, {high:{digits}}]"
