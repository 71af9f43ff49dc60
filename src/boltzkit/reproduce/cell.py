"""One cell of a table: tune on validation data, train several seeds, evaluate each on the test set."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from boltzkit.method import (
    Model,
    RunConfig,
    TuneConfig,
    Tuning,
    fit_side_by_side,
    gather,
    judge,
    load,
    tune,
    tuning_steps,
)
from boltzkit.reproduce.curves import training_curves, training_seconds
from boltzkit.reproduce.keep import keep_model
from boltzkit.reproduce.picture import store_picture
from boltzkit.reproduce.question import question, same_question
from boltzkit.reproduce.slow import slow_coordinates
from boltzkit.storage import read_json, write_json
from boltzkit.training import Watch, provenance

__all__ = ["Cell", "Tell", "run_cell", "stored_result"]

Tell = Callable[[str], None]


@dataclass(frozen=True)
class Cell:
    """What one cell trains.

    Args:
        key: a file name, unique in the table.
        label: how tables and progress call it.
        config: the run, before tuning.
        seeds: one independent experiment each: data, start and order are drawn anew.
        tuning: the grid; None takes the configuration as it is.
        keep: keep the first seed's flow as a run folder under ``models/``.
        after: the cell with whose flows the seeds begin, each with that of its own seed.
        trains: whether they train on; else those flows are judged by this configuration.
    """

    key: str
    label: str
    config: RunConfig
    seeds: tuple[int, ...]
    tuning: TuneConfig | None
    keep: bool = False
    after: "Cell | None" = None
    trains: bool = True

    def __post_init__(self) -> None:
        if self.after is not None and (self.tuning is not None or self.after.config.has_replicas):
            raise ValueError(
                "A cell that goes on from another is not tuned, and the other is trained seed by seed."
            )

    def question(self) -> dict[str, Any]:
        """Return everything the answer depends on."""
        content = question(self.config, self.seeds, self.tuning)
        if self.after is not None:
            content["after"] = self.after.question()
        return content if self.trains else {**content, "trains": False}

    def trained_in(self, out: Path) -> Path:
        """Return where its seeds are trained."""
        if self.after is not None and not self.trains:
            return self.after.trained_in(out)
        return out / self.key / "final"

    def flows(self, out: Path) -> list[Path]:
        """Return where the flows of its seeds are, once they are trained one by one."""
        return [self.trained_in(out) / f"{number}" for number in range(len(self.seeds))]

    def trained_steps(self) -> int:
        """Return at which step its flows are trained."""
        if self.after is not None and not self.trains:
            return self.after.trained_steps()
        return self.config.training.steps

    def steps(self) -> int:
        """Return how many gradient steps the cell takes, tuning included."""
        tuning = 0 if self.tuning is None else tuning_steps(self.config, self.tuning)
        return tuning + len(self.seeds) * self.config.training.steps if self.trains else 0


def stored_result(cell: Cell, out: Path) -> dict[str, Any] | None:
    """Return the result of a finished cell, None if it is missing or answers another question."""
    path = out / f"{cell.key}.json"
    content = read_json(path) if path.is_file() else {}
    return dict(content) if same_question(content.get("question"), cell.question()) else None


def run_cell(cell: Cell, out: Path, tell: Tell, *, again: bool = False) -> dict[str, Any]:
    """Return the cell's result, from disk when it is finished, going on where it stopped otherwise.

    Args:
        cell: what to do.
        out: folder of all cells.
        tell: called with a line at a time.
        again: train even where there is a result: its flows are wanted, and they are not there.
    """
    if not again and (stored := stored_result(cell, out)) is not None:
        return stored
    start = time.monotonic()
    config, tuning = cell.config, None
    if cell.tuning is not None:
        tuning = tune(config, cell.tuning, out / cell.key / "tune", _watch(tell), tell)
        config = tuning.apply(config)
    starts = [None] * len(cell.seeds) if cell.after is None else [str(path) for path in cell.after.flows(out)]
    configs = [
        config.model_copy(update={"seed": seed, "start": start})
        for seed, start in zip(cell.seeds, starts, strict=True)
    ]
    final = cell.trained_in(out)
    if cell.trains:
        tell(f"training {len(cell.seeds)} seeds, {config.training.steps} steps")
        models = fit_side_by_side(configs, final, _watch(tell))
    else:
        models = [_judged_anew(config) for config in configs]
    tell("evaluating")
    runs = [_evaluated(cell, model, out) for model in models]
    origin = provenance(cell.seeds[0], config.device)
    if cell.keep:
        keep_model(models[0], runs[0], origin, out.parent / "models" / cell.key)
    result = {
        "question": cell.question(),
        "label": cell.label,
        "tuned": None if tuning is None else _tuned(tuning),
        "runs": [{"seed": seed, **run} for seed, run in zip(cell.seeds, runs, strict=True)],
        "metrics": training_curves(final, len(cell.seeds), config.training.steps),
        "parameters": sum(p.numel() for p in models[0].flow.parameters()),
        "training_seconds": training_seconds(final, len(cell.seeds)),
        "provenance": origin,
        "seconds": round(time.monotonic() - start, 1),
    }
    write_json(out / f"{cell.key}.json", result)
    tell("done")
    return result


def _judged_anew(config: RunConfig) -> Model:
    """Return the flow that a run would begin with, as that run's own."""
    assert config.start is not None
    return Model(Model.untrained(config).flow, config, load(config.start).step)


def _evaluated(cell: Cell, model: Model, out: Path) -> dict[str, Any]:
    """Return a seed's evaluation; a stopped cell does not judge again the seeds that it trained itself."""
    path = out / cell.key / f"evaluation-{model.config.seed}.json"
    if not (cell.trains and path.is_file()):
        tica, skipped = slow_coordinates(model.config)
        evidence = gather(model, tica=tica)
        content = judge(model, evidence, skipped=skipped).to_json()
        if model.config.seed == cell.seeds[0]:
            store_picture(out / f"{cell.key}.npz", model, evidence)
        write_json(path, content)
    return dict(read_json(path))


def _tuned(tuning: Tuning) -> dict[str, Any]:
    trials = sorted(tuning.trials, key=lambda t: (-t.steps, t.score))
    return {
        "learning_rate": tuning.best.learning_rate,
        "data_weight": tuning.best.data_weight,
        "trials": [[t.steps, t.learning_rate, t.data_weight, round(min(t.score, 1e9), 5)] for t in trials],
    }


def _watch(tell: Tell) -> Watch:
    def watch(line: dict[str, Any], steps: int) -> None:
        if "validation_nll" in line:
            values = line["validation_nll"]
            shown = f"{min(values):.4f} to {max(values):.4f}" if isinstance(values, list) else f"{values:.4f}"
            tell(f"step {line['step']} of {steps}, validation NLL {shown}")

    return watch
