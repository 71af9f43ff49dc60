"""What a folder of results holds: its finished rows with their provenance, and what its README says."""

import posixpath
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from boltzkit.errors import UserError
from boltzkit.reproduce.experiment import Experiment, Planned
from boltzkit.reproduce.note_tables import without_templates
from boltzkit.reproduce.question import same_settings
from boltzkit.reproduce.table import Row, read_values
from boltzkit.storage import read_json

__all__ = ["Evidence", "Note", "gather", "read_note", "scale_of"]

_BLOCK = re.compile(r"^```(?:bash|console)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\(([^)#\s]+)\)")


@dataclass(frozen=True)
class Note:
    """What a README says: its title, its commands, how to read the numbers, and all that follows the title."""

    title: str
    commands: str
    reading: str
    body: str


def read_note(folder: Path) -> Note | None:
    """Return the note of a folder, None where it has no README.

    The commands are the first block of them. How to read the numbers is the section ``## Reading``, or else the first
    paragraph. Links become relative to the folder above, where the page stands.
    """
    path = folder / "README.md"
    if not path.is_file():
        return None
    text = without_templates(path.read_text())
    title, _, body = text.partition("\n")
    if not title.startswith("# "):
        raise UserError(f"{path} does not begin with a title: write '# ' and a title on its first line.")
    block = _BLOCK.search(body)
    commands = "" if block is None else block[1].rstrip("\n")
    marked = re.search(r"^## Reading\n(.*?)(?=^## |\Z)", body, re.MULTILINE | re.DOTALL)
    reading = _first_paragraph(_BLOCK.sub("", body)) if marked is None else marked[1].strip()
    moved = (_linked_from_above(part, folder.name) for part in (reading, body.strip()))
    return Note(title.removeprefix("# "), commands, *moved)


def _first_paragraph(body: str) -> str:
    parts = [part.strip() for part in body.split("\n\n")]
    return next((part for part in parts if part and not part.startswith(("#", "|", "!", "```"))), "")


def _linked_from_above(text: str, folder: str) -> str:
    def moved(match: re.Match[str]) -> str:
        target = match[1]
        return match[0] if ":" in target else f"]({posixpath.normpath(posixpath.join(folder, target))})"

    return _LINK.sub(moved, text)


@dataclass(frozen=True)
class Evidence:
    """The rows of an experiment, finished or not.

    Attributes:
        rows: the plan's rows with their values; those without values are not finished.
        results: what the finished cells stored.
        missing: labels of the unfinished rows.
        older: labels of rows whose settings are not those that the command has now.
    """

    rows: tuple[Row, ...]
    results: tuple[Mapping[str, Any], ...]
    missing: tuple[str, ...]
    older: tuple[str, ...]

    @property
    def seeds(self) -> str:
        """Seeds of the finished rows."""
        sets = dict.fromkeys(tuple(result["question"]["seeds"]) for result in self.results)
        return "; ".join(", ".join(map(str, seeds)) for seeds in sets)

    @property
    def hours(self) -> float:
        """Time of all finished cells on their workers, with tuning and evaluation."""
        return sum(float(result["seconds"]) for result in self.results) / 3600

    @property
    def machines(self) -> str:
        """What the finished cells ran on."""
        origins = [result["provenance"] for result in self.results]
        words = dict.fromkeys(
            f"{one['machine']}, {one['device']}, {one['threads']} thread{'s' * (one['threads'] != 1)} a cell"
            for one in origins
        )
        return "; ".join(words)

    @property
    def training_minutes(self) -> list[float]:
        """Minutes of each training, as far as cells tell it."""
        return [s / 60 for result in self.results for s in result.get("training_seconds", [])]

    @property
    def steps(self) -> list[int]:
        """Gradient steps of the finished rows, each number once."""
        found = {int(result["question"]["config"]["training"]["steps"]) for result in self.results}
        return sorted(found)


def gather(experiment: Experiment, folder: Path) -> Evidence:
    """Return what a folder holds of an experiment; its rows are found by the names of their files.

    A stored cell counts whatever data it was trained on: where the page is made, there are none to compare.
    """
    rows, results, missing, older = [], [], [], []
    for planned in experiment.rows:
        result = _stored(planned, folder)
        values = {} if result is None else read_values(experiment.columns, result["runs"])
        rows.append(Row(planned.group, planned.label, values, planned.paper))
        if result is None:
            missing.append(planned.cell.label)
            continue
        results.append(result)
        if not same_settings(result["question"], planned.cell.question()):
            older.append(planned.cell.label)
    return Evidence(tuple(rows), tuple(results), tuple(missing), tuple(older))


def _stored(planned: Planned, folder: Path) -> Mapping[str, Any] | None:
    path = folder / "cells" / f"{planned.cell.key}.json"
    return dict(read_json(path)) if path.is_file() else None


def scale_of(folder: Path, scales: Sequence[str]) -> str | None:
    """Return the scale that the title of a folder's table names, None where there is no table."""
    path = folder / "table.md"
    if not path.is_file():
        return None
    title = path.read_text().partition("\n")[0]
    found = re.search(r", scale (\w+)$", title)
    if found is None or found[1] not in scales:
        raise UserError(f"{path} names no scale in its title: write it anew with boltzkit reproduce.")
    return found[1]
