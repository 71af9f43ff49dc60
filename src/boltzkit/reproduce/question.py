"""When a stored result answers the question at hand: equal settings and equal data, wherever they lie."""

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from boltzkit.errors import UserError
from boltzkit.method import RunConfig, TuneConfig

__all__ = ["question", "same_question"]


def question(config: RunConfig, seeds: tuple[int, ...], tuning: TuneConfig | None) -> dict[str, Any]:
    """Return everything an answer depends on. A dataset stands there by its content, not by its place."""
    content = config.model_dump(mode="json")
    if config.data.path is not None:
        content["data"]["path"] = _identity(Path(config.data.path))
    options = None if tuning is None else tuning.model_dump(mode="json")
    return {"config": content, "seeds": list(seeds), "tuning": options}


def same_question(stored: Mapping[str, Any] | None, asked: Mapping[str, Any]) -> bool:
    """Tell whether two questions are the same; settings that a stored one does not know have their default."""
    if stored is None or stored.get("seeds") != asked["seeds"]:
        return False
    try:
        return bool(
            _config(stored) == _config(asked) and _tuning(stored) == _tuning(asked),
        )
    except UserError:  # written by a version with other settings
        return False


def _config(content: Mapping[str, Any]) -> RunConfig:
    return RunConfig.parse(content.get("config") or {}, source="a stored result")


def _tuning(content: Mapping[str, Any]) -> TuneConfig | None:
    options = content.get("tuning")
    return None if options is None else TuneConfig.parse(options, source="a stored result")


def _identity(path: Path) -> str:
    manifest = path / "manifest.json"
    if not manifest.is_file():
        return str(path)
    return f"dataset {hashlib.sha256(manifest.read_bytes()).hexdigest()[:16]}"
