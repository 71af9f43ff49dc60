"""An experiment: the rows of one table, what is drawn of them, and how all of it runs and resumes."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Self

from matplotlib.figure import Figure

from boltzkit.data import Dataset
from boltzkit.errors import UserError
from boltzkit.method import MoleculeConfig
from boltzkit.method.system import molecule_of
from boltzkit.reproduce.cell import Cell
from boltzkit.reproduce.question import same_settings
from boltzkit.reproduce.table import Column, Published, Row, read_values
from boltzkit.storage import read_json

__all__ = ["Drawing", "Experiment", "Found", "Picture", "Planned", "finished"]


@dataclass(frozen=True)
class Planned:
    """One row of a table: where it stands, what trains it, and the paper's numbers for it."""

    group: str
    label: str
    cell: Cell
    paper: Mapping[str, Published] = field(default_factory=dict)


@dataclass(frozen=True)
class Found:
    """A finished row: its plan, its numbers, the stored result and where the arrays for its picture are."""

    planned: Planned
    row: Row
    result: Mapping[str, Any]
    arrays: Path


@dataclass(frozen=True)
class Picture:
    """A figure with its file name and caption."""

    name: str
    figure: Figure
    caption: str


Drawing = Callable[[Sequence[Found]], Picture | None]
"""Draws finished rows; None where there is too little to draw."""


@dataclass(frozen=True)
class Experiment:
    """Everything that one reproduction is.

    Args:
        title: of the page.
        name: of the table, with the scale.
        columns: metrics of the table; one that no row has is left out.
        group_title: what the rows of a block have in common.
        rows: the plan, in the table's order.
        explanation: what the numbers mean.
        summary: from rows to the result in a sentence or two.
        drawings: figures of the page.
        published: a table of the paper that stands on its own, because its scale is another.
        longest_first: start the longest cells first, so that no worker is left alone at the end.
        prepare: makes what all cells share, such as data or a proposal; whatever is there stays.
    """

    title: str
    name: str
    columns: tuple[Column, ...]
    group_title: str
    rows: tuple[Planned, ...]
    explanation: str
    summary: Callable[[Sequence[Found]], str]
    drawings: tuple[Drawing, ...]
    published: tuple[Row, ...] = ()
    longest_first: bool = False
    prepare: Callable[[Callable[[str], None]], None] | None = None

    def with_dynamics(self, folder: Path) -> Self:
        """Return the experiment with slow coordinates fitted on molecular dynamics, which all its cells must be of."""
        return replace(
            self, rows=tuple(replace(row, cell=self._with_dynamics(row.cell, folder)) for row in self.rows)
        )

    def _with_dynamics(self, cell: Cell, folder: Path) -> Cell:
        config = cell.config
        if not isinstance(config.target, MoleculeConfig):
            raise UserError(f"--tica is for molecules; '{self.title}' has no slow coordinates.")
        Dataset.open(folder, molecule_of(config.target))
        data = config.data.model_copy(update={"dynamics": str(folder)})
        after = None if cell.after is None else self._with_dynamics(cell.after, folder)
        return replace(cell, config=config.model_copy(update={"data": data}), after=after)

    def cells(self, patterns: Sequence[str] = ()) -> list[Cell]:
        """Return the cells in the order in which they start; those whose keys match a pattern, where some are given."""
        cells = [planned.cell for planned in self.rows]
        for pattern in patterns:
            if not any(fnmatchcase(cell.key, pattern) for cell in cells):
                known = ", ".join(cell.key for cell in cells)
                raise UserError(f"'{self.title}' has no row '{pattern}'; its rows are {known}.")
        if patterns:
            cells = [cell for cell in cells if any(fnmatchcase(cell.key, pattern) for pattern in patterns)]
        return sorted(cells, key=lambda cell: -cell.steps()) if self.longest_first else cells


def finished(experiment: Experiment, out: Path) -> list[Found]:
    """Return the rows whose cells are finished, in the table's order, on whatever draw of the data.

    A table that takes days is filled on several machines, on which the same simulation gives other samples.
    """
    found = []
    for planned in experiment.rows:
        path = out / "cells" / f"{planned.cell.key}.json"
        result = dict(read_json(path)) if path.is_file() else {}
        if same_settings(result.get("question"), planned.cell.question()):
            values = read_values(experiment.columns, result["runs"])
            row = Row(planned.group, planned.label, values, planned.paper)
            found.append(Found(planned, row, result, path.with_suffix(".npz")))
    return found
