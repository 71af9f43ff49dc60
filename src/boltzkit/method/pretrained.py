"""Flows that come with the package, by the name of their molecule."""

from pathlib import Path

from boltzkit.errors import UserError, did_you_mean

__all__ = ["find_run", "pretrained"]

_FOLDER = Path(__file__).with_name("flows")


def pretrained() -> list[str]:
    """Return the names of the flows that come with the package."""
    return sorted(path.name for path in _FOLDER.iterdir() if path.is_dir()) if _FOLDER.is_dir() else []


def find_run(text: str | Path) -> Path:
    """Return the run folder that a person means: a folder of theirs, that of an answer, or a flow of the package."""
    path = Path(text)
    known = pretrained()
    if (path / "config.json").is_file():
        return path
    if (path / "training" / "config.json").is_file():
        return path / "training"
    if str(text) in known:
        return _FOLDER / str(text)
    if path.exists():
        raise UserError(f"{path} is not a run folder: it has no config.json.")
    raise UserError(f"There is no run folder {path}.{did_you_mean(str(text), known)}")
