"""The paper's Gaussian-mixture table: four objectives, three data sizes, four seeds."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from boltzkit.method import ObjectiveConfig, RunConfig, TuneConfig, gmm
from boltzkit.reproduce.cell import Cell, Tell, stored_result
from boltzkit.reproduce.gmm_report import write_report
from boltzkit.reproduce.schedule import run_cells
from boltzkit.reproduce.table import Row

__all__ = ["METHODS", "SCALES", "reproduce_gmm"]


@dataclass(frozen=True)
class Method:
    """One row of the table, with the paper's NLL and ESS (mean, standard deviation) by data size.

    Path gradients are no gradient of a bounded loss on a finite data set and drift away at rates that suit the
    others: their grid starts lower and their gradient norm is clipped.
    """

    label: str
    objective: dict[str, Any]
    paper: dict[int, tuple[tuple[float, float], tuple[float, float]]]
    learning_rate: float = 1e-3
    learning_rates: tuple[float, ...] = (3.2e-4, 1e-3, 3.2e-3)
    clip: float | None = None


METHODS = {
    "forward-kl": Method(
        "fwd KL",
        {},
        {500: ((2.850, 0.061), (77.76, 6.90)), 1000: ((2.791, 0.013), (86.47, 1.43)),
         10_000: ((2.733, 0.003), (96.75, 0.46))},
        learning_rates=(1e-4, 3.2e-4, 1e-3),
    ),
    "path-gradient": Method(
        "fwd KL (path gradients)",
        {"data": "path_gradient"},
        {500: ((2.812, 0.008), (77.97, 5.32)), 1000: ((2.777, 0.027), (86.82, 5.43)),
         10_000: ((2.726, 0.002), (97.54, 1.44))},
        learning_rate=1e-4,
        learning_rates=(1e-5, 3.2e-5, 1e-4),
        clip=1.0,
    ),
    "ldr-l2": Method(
        "fwd KL + LDR-L2",
        {"dispersion": "l2", "data_weight": 0.3},
        {500: ((2.736, 0.003), (95.26, 2.48)), 1000: ((2.725, 0.001), (98.62, 0.31)),
         10_000: ((2.730, 0.014), (97.54, 2.50))},
    ),
    "ldr-l1": Method(
        "fwd KL + LDR-L1",
        {"dispersion": "l1", "data_weight": 0.3},
        {500: ((2.734, 0.004), (96.98, 0.60)), 1000: ((2.727, 0.004), (96.83, 2.60)),
         10_000: ((2.720, 0.001), (99.47, 0.29))},
    ),
}  # fmt: skip


@dataclass(frozen=True)
class Scale:
    """How much of the table to run.

    Args:
        sizes: training-set sizes and the tuning of each; None takes the recipe's learning rate and λ_data.
        methods: keys of `METHODS`.
        seeds: one independent experiment each.
        steps: gradient steps.
    """

    sizes: Mapping[int, TuneConfig | None]
    methods: tuple[str, ...]
    seeds: tuple[int, ...]
    steps: int


_WEIGHTS = (0.1, 0.3, 0.7)
_TUNING = TuneConfig(seeds=(1_001, 1_002), keep=0.15, data_weights=_WEIGHTS)
_TUNING_BY_SIZE = {
    size: _TUNING.model_copy(update={"rungs": rungs})
    for size, rungs in {500: (0.1, 1.0), 1000: (0.1, 0.5), 10_000: (0.03, 0.15)}.items()
}
"""How much small data overfits depends on the length of the run, so there the last rung is the whole length; at
10,000 samples a step costs six times as much and hardly overfits, and 1,500 steps tell enough."""

SCALES = {
    "demo": Scale({500: None}, ("forward-kl", "ldr-l1"), seeds=(0, 1, 2), steps=1500),
    "laptop": Scale({500: None, 1000: None}, tuple(METHODS), seeds=(0, 1), steps=4000),
    "paper": Scale(_TUNING_BY_SIZE, tuple(METHODS), seeds=(10, 11, 12, 13), steps=10_000),
}


def cells(scale: Scale) -> list[tuple[int, str, Cell]]:
    """Return (data size, method, cell) of a table, small data first."""
    planned = []
    for size, tuning in scale.sizes.items():
        for key in scale.methods:
            method, config = METHODS[key], _config(size, key, scale)
            if tuning is not None:
                tuning = tuning.model_copy(update={"learning_rates": method.learning_rates})
            label = f"{size} {method.label}"
            planned.append((size, key, Cell(f"{size}-{key}", label, config, scale.seeds, tuning)))
    return planned


def reproduce_gmm(scale_name: str, out: Path, workers: int, tell: Tell) -> Path:
    """Run the table at a scale (demo, laptop, paper) and write table.md, table.csv, figures and report.html.

    Each seed is an independent experiment with its own training data; the test set is common to all. A run that
    is stopped leaves the report of the cells that are finished.
    """
    planned = cells(SCALES[scale_name])
    try:
        run_cells([cell for _, _, cell in planned], out / "cells", workers, tell)
    finally:
        stored = [(size, key, cell.key, stored_result(cell, out / "cells")) for size, key, cell in planned]
        finished = [(_row(size, key, result), name) for size, key, name, result in stored if result]
        if finished:
            write_report(out, scale_name, [row for row, _ in finished], [name for _, name in finished])
    return out / "report.html"


def _config(size: int, key: str, scale: Scale) -> RunConfig:
    config = gmm()
    objective = ObjectiveConfig(**METHODS[key].objective, warm_up=scale.steps // 10)
    training = config.training.model_copy(
        update={
            "steps": scale.steps,
            "batch": size // 10,
            "learning_rate": METHODS[key].learning_rate,
            "clip": METHODS[key].clip,
        }
    )
    data = config.data.model_copy(update={"samples": size})
    update: dict[str, Any] = {"objective": objective, "training": training, "data": data}
    if objective.data == "path_gradient":
        update["flow"] = config.flow.model_copy(update={"statistics": "running"})
    return config.model_copy(update=update)


def _row(size: int, key: str, result: dict[str, Any]) -> Row:
    runs, method = result["runs"], METHODS[key]
    paper = {}
    if size in method.paper:
        paper = dict(zip(("nll", "ess"), method.paper[size], strict=True))
    return Row(
        group=str(size),
        label=method.label,
        values={
            "nll": [run["nll"]["value"] for run in runs],
            "nll_gap": [run["nll_gap"] for run in runs],
            "ess": [run["reverse"]["ess_clipped"] for run in runs],
            "ess_raw": [run["reverse"]["ess"]["value"] for run in runs],
            "forward_ess": [run["forward"]["fraction"] for run in runs],
            "pareto_k": [run["reverse"]["pareto_k"] for run in runs],
        },
        paper=paper,
    )
