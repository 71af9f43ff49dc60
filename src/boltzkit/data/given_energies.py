"""Energies that came with a trajectory: read from a file, and compared with what the molecule says."""

import csv
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from boltzkit.data.numpy_files import read_series
from boltzkit.energy.constants import BOLTZMANN
from boltzkit.errors import UserError

__all__ = ["Comparison", "compare", "read_energies"]

_TOLERANCE = 0.5
"""kJ/mol: single precision and other engines' constants stay well below, another force field well above."""
_FEWEST = 3
"""Frames below which a spread says nothing."""


@dataclass(frozen=True)
class Comparison:
    """Given energies g against computed ones E: g · factor = E + offset ± spread.

    Attributes:
        n: frames compared.
        unit: the unit in which the given energies agree best.
        factor: kJ/mol per that unit.
        offset: mean of g · factor − E, kJ/mol; a constant means nothing.
        spread: standard deviation of the same, kJ/mol.
        allowed: the spread that rounding of energies and coordinates explains, kJ/mol.
    """

    n: int
    unit: str
    factor: float
    offset: float
    spread: float
    allowed: float

    @property
    def agrees(self) -> bool:
        """Whether the given energies are of this potential, up to a constant and a unit."""
        return self.spread <= self.allowed

    @property
    def sentence(self) -> str:
        """What to tell."""
        numbers = f"offset {self.offset:.4g} kJ/mol, spread {self.spread:.2g} kJ/mol over {self.n:,} frames"
        if not self.agrees:
            return (
                f"the energies given with it are not those of this molecule and force field, not even up to a constant "
                f"or a unit (the spread is {self.spread:.3g} kJ/mol): check the force field and that energies and "
                "frames belong together, or go on without them by --ignore-energies"
            )
        if self.factor == 1.0:
            return f"the energies given with it agree: {numbers}"
        times = f"times {self.factor:.6g} they agree"
        return f"the energies given with it are in {self.unit}, not kJ/mol: {times}: {numbers}"


def compare(
    given: NDArray[np.float64], computed: NDArray[np.float64], temperature: float, rounding: float = 0.0
) -> Comparison | None:
    """Compare energies frame by frame, None when there are too few.

    Args:
        given: in an unknown unit and from an unknown zero, ``(n,)``.
        computed: kJ/mol, ``(n,)``.
        temperature: kelvin, in case the given ones are reduced.
        rounding: standard deviation in kJ/mol that rounded coordinates explain.
    """
    both = np.isfinite(given) & np.isfinite(computed)
    if both.sum() < _FEWEST:
        return None
    units = {
        "kJ/mol": 1.0,
        "kcal/mol": 4.184,
        f"k_BT at {temperature:g} K": BOLTZMANN * temperature,
        "eV": 96.48533212,
        "hartree": 2625.499639,
    }
    gaps = {unit: given[both] * factor - computed[both] for unit, factor in units.items()}
    unit = min(gaps, key=lambda name: float(gaps[name].std()))
    gap, allowed = gaps[unit], max(_TOLERANCE, 3 * rounding)
    return Comparison(int(both.sum()), unit, units[unit], float(gap.mean()), float(gap.std()), allowed)


def read_energies(path: Path) -> NDArray[np.float64]:
    """Read one energy per frame from a .npy file, or from a .csv file with one column or one named energy."""
    if not path.is_file():
        raise UserError(f"There is no file {path}: check --energies.")
    if path.suffix.lower() == ".csv":
        return _csv(path)
    return read_series(path)


def _csv(path: Path) -> NDArray[np.float64]:
    try:
        lines = path.read_text().splitlines()
        rows = [row for row in csv.reader(lines, delimiter=_delimiter(lines), skipinitialspace=True) if row]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise UserError(f"{path} cannot be read as a .csv file ({error}).") from error
    if not rows:
        raise UserError(f"{path} is empty.")
    named = not _is_number(rows[0][0])
    column = _column([word.lstrip("#").strip() for word in rows[0]], path) if named else 0
    if not named and len(rows[0]) > 1:
        raise UserError(f"{path} has {len(rows[0])} columns without names: keep the energies alone.")
    values = [row[column] if column < len(row) else "" for row in rows[named:]]
    bad = next((i for i, word in enumerate(values) if not _is_number(word)), None)
    if bad is not None:
        raise UserError(f"{path}: '{values[bad][:40]}' in row {bad + 1 + named} is not a number.")
    return np.array([float(word) for word in values])


def _delimiter(lines: list[str]) -> str:
    return next((mark for mark in ",;\t" if lines and mark in lines[0]), ",")


def _column(names: list[str], path: Path) -> int:
    if len(names) == 1:
        return 0
    for word in ("potential", "energy"):
        found = [i for i, name in enumerate(names) if word in name.lower()]
        if len(found) == 1:
            return found[0]
    raise UserError(f"{path}: no single column is the potential energy; it has: {', '.join(names)[:400]}.")


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True
