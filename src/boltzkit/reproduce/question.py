"""When a stored result answers the question at hand: equal settings and equal data, wherever they lie."""

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from boltzkit.config import Config
from boltzkit.method import RunConfig, TuneConfig

__all__ = ["datasets", "question", "same_question", "same_settings"]


_PLACES = (
    ("data", "path"),
    ("data", "validation_path"),
    ("data", "dynamics"),
    ("reference", "path"),
    ("importance", "proposal"),
)
"""Settings that name a folder."""


def question(config: RunConfig, seeds: tuple[int, ...], tuning: TuneConfig | None) -> dict[str, Any]:
    """Return everything an answer depends on. Datasets and flows stand there by their content, not by their place."""
    content = config.model_dump(mode="json")
    for group, key in _PLACES:
        if (content[group] or {}).get(key) is not None:
            content[group][key] = _identity(Path(content[group][key]))
    options = None if tuning is None else tuning.model_dump(mode="json")
    return {"config": content, "seeds": list(seeds), "tuning": options}


def same_question(stored: Mapping[str, Any] | None, asked: Mapping[str, Any]) -> bool:
    """Tell whether two questions are the same; settings that a stored one does not know have their default."""
    if stored is None or stored.get("seeds") != asked["seeds"]:
        return False
    before = asked.get("after")
    return (
        (stored.get("after") is None if before is None else same_question(stored.get("after"), before))
        and stored.get("trains", True) == asked.get("trains", True)
        and _is_same(RunConfig, asked["config"], stored.get("config"))
        and _is_same(TuneConfig, asked["tuning"], stored.get("tuning"))
    )


def same_settings(stored: Mapping[str, Any] | None, asked: Mapping[str, Any]) -> bool:
    """Tell whether two questions are the same whatever data they name: simulations differ from machine to machine."""
    return stored is not None and same_question(_without_data(stored), _without_data(asked))


def datasets(content: Mapping[str, Any]) -> tuple[str, ...]:
    """Return what a question names of data and flows."""
    config = content["config"]
    return tuple(str((config.get(group) or {}).get(key)) for group, key in _PLACES)


def _without_data(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return a question that names no dataset and no flow."""
    config = {
        key: dict(value) if isinstance(value, Mapping) else value for key, value in content["config"].items()
    }
    for group, key in _PLACES:
        if isinstance(config.get(group), dict) and key in config[group]:
            config[group][key] = None
    before = content.get("after")
    return {**content, "config": config, "after": None if before is None else _without_data(before)}


def _is_same(kind: type[Config], asked: Any, stored: Any) -> bool:
    if asked is None or stored is None:
        return asked is stored
    return kind.parse(asked).is_stored_as(stored)


def _identity(path: Path) -> str:
    files = {
        "dataset": [path / "manifest.json"],
        "flow": sorted(path.glob("checkpoints/*/state.safetensors")),
    }
    for kind, found in files.items():
        if found and found[-1].is_file():
            return f"{kind} {hashlib.sha256(found[-1].read_bytes()).hexdigest()[:16]}"
    return str(path)
