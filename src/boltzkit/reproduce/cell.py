"""One cell of a table: tune on validation data, train several seeds side by side, evaluate each on the test set."""

import io
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from boltzkit.method import Model, RunConfig, TuneConfig, Tuning, evaluate, fit_side_by_side, tune
from boltzkit.storage import read_json, write_bytes, write_json
from boltzkit.training import RunFolder, Watch, provenance

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
    """

    key: str
    label: str
    config: RunConfig
    seeds: tuple[int, ...]
    tuning: TuneConfig | None

    def question(self) -> dict[str, Any]:
        """Return everything the answer depends on."""
        return {
            "config": self.config.model_dump(mode="json"),
            "seeds": list(self.seeds),
            "tuning": None if self.tuning is None else self.tuning.model_dump(mode="json"),
        }


def stored_result(cell: Cell, out: Path) -> dict[str, Any] | None:
    """Return the result of a finished cell, None if it is missing or answers another question."""
    path = out / f"{cell.key}.json"
    content = read_json(path) if path.is_file() else {}
    return dict(content) if content.get("question") == cell.question() else None


def run_cell(cell: Cell, out: Path, tell: Tell) -> dict[str, Any]:
    """Return the cell's result, from disk when it is finished, going on where it stopped otherwise."""
    if (stored := stored_result(cell, out)) is not None:
        return stored
    start = time.monotonic()
    config, tuning = cell.config, None
    if cell.tuning is not None:
        tuning = tune(config, cell.tuning, out / cell.key / "tune", _watch(tell), tell)
        config = tuning.apply(config)
    tell(f"training {len(cell.seeds)} seeds, {config.training.steps} steps")
    configs = [config.model_copy(update={"seed": seed}) for seed in cell.seeds]
    models = fit_side_by_side(configs, out / cell.key / "final", _watch(tell))
    tell("evaluating")
    result = {
        "question": cell.question(),
        "label": cell.label,
        "tuned": None if tuning is None else _tuned(tuning),
        "runs": [{"seed": m.config.seed, **evaluate(m).to_json()} for m in models],
        "metrics": _curve(out / cell.key / "final"),
        "provenance": provenance(cell.seeds[0], config.device),
        "seconds": round(time.monotonic() - start, 1),
    }
    if models[0].target.event_shape == (2,):
        _write_density(out / f"{cell.key}.npz", models[0])
    write_json(out / f"{cell.key}.json", result)
    tell("done")
    return result


def _tuned(tuning: Tuning) -> dict[str, Any]:
    trials = sorted(tuning.trials, key=lambda t: (-t.steps, t.score))
    return {
        "learning_rate": tuning.best.learning_rate,
        "data_weight": tuning.best.data_weight,
        "trials": [[t.steps, t.learning_rate, t.data_weight, round(min(t.score, 1e9), 5)] for t in trials],
    }


def _curve(folder: Path) -> dict[str, list[Any]]:
    """Return the validation curve of the final training, one column per seed."""
    lines = [line for line in RunFolder(folder).metrics() if "validation_nll" in line]
    return {
        "step": [line["step"] for line in lines],
        "validation_nll": [[round(v, 5) for v in line["validation_nll"]] for line in lines],
    }


def _watch(tell: Tell) -> Watch:
    def watch(line: dict[str, Any], steps: int) -> None:
        if "validation_nll" in line:
            values = line["validation_nll"]
            shown = f"{min(values):.4f} to {max(values):.4f}" if isinstance(values, list) else f"{values:.4f}"
            tell(f"step {line['step']} of {steps}, validation NLL {shown}")

    return watch


def _write_density(path: Path, model: Model, half_width: float = 3.0, points: int = 121) -> None:
    """Store log q on a grid and the training samples of the first seed, for the picture."""
    axis = torch.linspace(-half_width, half_width, points, dtype=torch.float64)
    grid = torch.cartesian_prod(axis, axis)
    content = {
        "axis": axis.numpy(),
        "log_prob": model.log_prob(grid).reshape(points, points).numpy().astype(np.float32),
        "log_target": -model.target(grid).reshape(points, points).numpy().astype(np.float32),
    }
    write_bytes(path, _npz(content))


def _npz(arrays: dict[str, Any]) -> bytes:
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)
    return buffer.getvalue()
