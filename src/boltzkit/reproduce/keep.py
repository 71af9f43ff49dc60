"""A trained flow to give away: a run folder with the flow alone, small enough to stand beside its results."""

import shutil
from pathlib import Path
from typing import Any

from boltzkit.method import Model, RunConfig
from boltzkit.storage import write_folder, write_json
from boltzkit.training import save_model

__all__ = ["keep_model", "without_paths"]


def keep_model(model: Model, evaluation: dict[str, Any], provenance: dict[str, Any], out: Path) -> None:
    """Write a run folder that loads, samples and evaluates, and that names no path of this machine.

    config.json, provenance.json, metrics.json and one checkpoint of the flow in single precision. Its data path is
    taken out: to judge it again on test data, give them (``boltzkit evaluate FOLDER --data DATASET``).
    """
    config = without_paths(model.config)

    def fill(partial: Path) -> None:
        write_json(partial / "config.json", config.model_dump(mode="json"))
        write_json(partial / "provenance.json", provenance)
        write_json(partial / "metrics.json", evaluation)
        save_model(
            partial / "checkpoints",
            model.flow.state_dict(),
            model.step,
            model.target.evaluations,
            averaged=config.training.ema is not None,
        )

    shutil.rmtree(out, ignore_errors=True)
    write_folder(out, fill)


def without_paths(config: RunConfig) -> RunConfig:
    """Return a configuration that names no path of this machine."""
    update: dict[str, Any] = {
        "start": None,
        "data": config.data.model_copy(update={"path": None, "validation_path": None, "dynamics": None}),
        "importance": config.importance and config.importance.model_copy(update={"proposal": None}),
        "reference": config.reference and config.reference.model_copy(update={"path": None}),
    }
    return config.model_copy(update=update)
