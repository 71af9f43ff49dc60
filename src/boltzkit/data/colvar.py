"""PLUMED's COLVAR files: named columns along time, with what restarts leave in them."""

from array import array
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from boltzkit.errors import UserError, did_you_mean

__all__ = ["Colvar", "bias_columns", "read_colvar"]

_FIELDS = "#! FIELDS"


@dataclass(frozen=True, eq=False)
class Colvar:
    """The rows of a COLVAR file that count.

    Attributes:
        path: the file.
        fields: names of the columns.
        values: ``(rows, columns)``.
        remarks: what restarts or a sudden end left behind, and what was done about it.
    """

    path: Path
    fields: tuple[str, ...]
    values: NDArray[np.float64]
    remarks: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.values)

    @property
    def time(self) -> NDArray[np.float64] | None:
        """Times of the rows, in PLUMED's unit of time (ps unless it was told otherwise); None without such a column."""
        return self.column("time") if "time" in self.fields else None

    def column(self, name: str) -> NDArray[np.float64]:
        """Return one column, ``(rows,)``; every row must be a number."""
        if name not in self.fields:
            raise UserError(f"{self.path} has no column '{name}'." + did_you_mean(name, self.fields))
        values = self.values[:, self.fields.index(name)]
        bad = ~np.isfinite(values)
        if bad.any():
            raise UserError(
                f"{self.path}: {name} is not a finite number in {bad.sum()} of {len(values)} rows, the first is row "
                f"{bad.argmax()} (from 0): the simulation broke down there, or the file is damaged."
            )
        return values


def read_colvar(path: str | Path) -> Colvar:
    """Read a COLVAR file.

    A restart repeats the line ``#! FIELDS`` and goes back in time to where the simulation was taken up again: rows that
    it replaces are dropped. A last row that was cut off is dropped too. Everything else that is odd is refused with the
    number of its line.
    """
    path = Path(path)
    if not path.is_file():
        raise UserError(f"There is no file {path}: check --colvar.")
    try:
        with path.open() as lines:
            fields, values, numbers, restarts, remarks = _rows(lines, path)
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is not a text file, so it is no COLVAR file of PLUMED.") from error
    if "time" in fields:
        values, dropped = _without_replaced(values, fields.index("time"), numbers, restarts, path)
        if dropped:
            remarks.append(f"{dropped:,} rows were dropped because a restart repeats their times")
    return Colvar(path, fields, values, tuple(remarks))


def bias_columns(colvar: Colvar, asked: str | None = None) -> tuple[str, ...]:
    """Return the names of the columns whose sum is the bias.

    Args:
        colvar: the file.
        asked: names with commas between; by default the single column ``*.rbias``, or else the single ``*.bias``, but
            never one whose label begins with metad, which grows along time without its c(t).
    """
    if asked is not None:
        names = tuple(name.strip() for name in asked.split(",") if name.strip())
        if not names:
            raise UserError("--bias-column names no column.")
        for name in names:
            colvar.column(name)
        return names
    reweighting = [name for name in colvar.fields if name.endswith(".rbias")]
    plain = [
        name for name in colvar.fields if name.endswith(".bias") and not name.lower().startswith("metad")
    ]
    found = reweighting or plain
    # Beside the rbias of metadynamics, a wall or restraint has a bias of its own: leaving it out would be wrong.
    if len(found) != 1 or (reweighting and plain):
        raise UserError(
            f"{colvar.path}: say with --bias-column which columns make up the bias, with commas between; it has: "
            f"{', '.join(colvar.fields)}."
        )
    return (found[0],)


def _rows(
    lines: Iterable[str], path: Path
) -> tuple[tuple[str, ...], NDArray[np.float64], list[int], list[int], list[str]]:
    """Return the columns' names, all rows, their lines, at which rows restarts begin, and remarks."""
    fields: tuple[str, ...] = ()
    values, numbers, restarts = array("d"), list[int](), list[int]()
    odd: UserError | None = None
    for number, line in enumerate(lines, 1):
        words = line.split()
        if not words:
            continue
        if odd is not None:
            raise odd
        if line.startswith(_FIELDS):
            fields = _same_fields(fields, tuple(words[2:]), number, path)
            restarts.append(len(numbers))
        elif not words[0].startswith("#"):
            if not fields:
                raise UserError(
                    f"{path}: line {number} comes before any line '#! FIELDS', so it is no COLVAR file of PLUMED; "
                    "energies alone, one per frame, go in by --bias-energies."
                )
            if len(words) == len(fields):
                values.extend(_numbers(words, number, path))
                numbers.append(number)
                continue
            odd = UserError(f"{path}: line {number} has {len(words)} values for {len(fields)} columns.")
            if len(words) > len(fields):
                raise odd
    if not numbers:
        raise odd or UserError(f"{path} holds no rows of numbers.")
    # A row that is too short is forgiven where nothing follows: the simulation was killed while it was written.
    remarks = [] if odd is None else ["the last row is cut off and was dropped"]
    return fields, np.array(values).reshape(len(numbers), -1), numbers, restarts, remarks


def _same_fields(before: tuple[str, ...], now: tuple[str, ...], number: int, path: Path) -> tuple[str, ...]:
    if not now:
        raise UserError(f"{path}: line {number} names no columns.")
    twice = next((name for name, times in Counter(now).items() if times > 1), None)
    if twice is not None:
        raise UserError(f"{path}: line {number} names the column '{twice}' twice.")
    if before and before != now:
        raise UserError(
            f"{path}: line {number} changes the columns from {' '.join(before)} to {' '.join(now)}: split the file."
        )
    return now


def _numbers(words: list[str], number: int, path: Path) -> list[float]:
    try:
        return [float(word) for word in words]
    except ValueError as error:
        raise UserError(f"{path}: line {number} holds what is not a number ({error}).") from None


def _without_replaced(
    values: NDArray[np.float64], place: int, numbers: list[int], restarts: list[int], path: Path
) -> tuple[NDArray[np.float64], int]:
    """Drop rows that a later restart writes again; return what is left and how many were dropped."""
    time = values[:, place]
    kept, begins = np.ones(len(time), dtype=bool), set(restarts)
    for row in (np.flatnonzero(~(time[1:] > time[:-1])) + 1).tolist():
        if not np.isfinite(time[row - 1 : row + 1]).all():
            raise UserError(f"{path}: the time in line {numbers[row]} or before it is not a finite number.")
        if row not in begins:
            raise UserError(
                f"{path}: times do not increase in line {numbers[row]}, from {time[row - 1]:g} to {time[row]:g}: two "
                "simulations in one file? Give each its own."
            )
        kept[:row] &= time[:row] < time[row]
        if not kept[:row].any():
            raise UserError(
                f"{path}: line {numbers[row]} begins again at time {time[row]:g}, before all rows so far: split the "
                "file, one simulation each."
            )
    return values[kept], int((~kept).sum())
