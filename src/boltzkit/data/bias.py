"""Bias energies that belong to the frames of a trajectory: from PLUMED, from a plain file, or from the positions."""

import csv
import hashlib
from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from boltzkit.data.colvar import bias_columns, read_colvar
from boltzkit.data.colvar_check import confirm_rows
from boltzkit.data.frame_rows import frame_rows, frame_times
from boltzkit.data.numpy_files import read_series
from boltzkit.data.trajectory_files import open_trajectory
from boltzkit.energy.constants import BOLTZMANN
from boltzkit.errors import UserError, did_you_mean
from boltzkit.molecule import Molecule

__all__ = ["BiasUnit", "FrameBias", "GivenBias", "bias_from_colvar", "bias_from_file"]

BiasUnit = Literal["kJ/mol", "kcal/mol", "kT"]
_ABSURD = 1e6
"""kJ/mol: no simulation carries such a bias, a wrong column or unit does."""


class FrameBias(ABC):
    """What a simulation added to the potential, for the frames of one trajectory."""

    @property
    @abstractmethod
    def source(self) -> dict[str, Any]:
        """What the manifest says about it; the same frames again must come with the same."""

    @abstractmethod
    def refuse_other(self, n_frames: int, path: Path) -> None:
        """Refuse a trajectory that this bias cannot belong to."""

    @abstractmethod
    def energy(self, frames: NDArray[np.int64], positions: NDArray[np.float32]) -> NDArray[np.float64]:
        """Return bias energies in kJ/mol, ``(n,)``, of frames with these numbers and positions."""


@dataclass(frozen=True, eq=False)
class GivenBias(FrameBias):
    """One energy per frame, as the simulation wrote it.

    Attributes:
        values: kJ/mol, ``(frames,)``.
        origin: where they come from, in words.
        sentences: what was assumed, and what is worth knowing.
        group: trajectories of one group ran under one and the same bias, as walkers that share it do.
    """

    values: NDArray[np.float64]
    origin: str
    sentences: tuple[str, ...] = ()
    group: str | None = None

    @property
    def source(self) -> dict[str, Any]:
        """The origin, a digest of the energies, and the group."""
        digest = hashlib.sha256(np.ascontiguousarray(self.values).tobytes()).hexdigest()[:16]
        content = {"from": self.origin, "sha256_begins": digest}
        return {"bias": content | ({} if self.group is None else {"group": self.group})}

    def refuse_other(self, n_frames: int, path: Path) -> None:
        """Refuse a trajectory with another number of frames."""
        if len(self.values) != n_frames:
            raise UserError(
                f"{path} has {n_frames} frames, but {len(self.values)} bias energies were given with it."
            )

    def energy(self, frames: NDArray[np.int64], positions: NDArray[np.float32]) -> NDArray[np.float64]:
        """Return the energies of some frames, wherever they are."""
        return self.values[frames]


def bias_from_colvar(
    path: str | Path,
    trajectory: str | Path,
    temperature: float,
    *,
    column: str | None = None,
    unit: BiasUnit = "kJ/mol",
    every: int | None = None,
    first: int | None = None,
    group: str | None = None,
    molecule: Molecule | None = None,
) -> GivenBias:
    """Read the bias of a trajectory's frames from a COLVAR file of PLUMED.

    Args:
        path: the COLVAR file.
        trajectory: whose frames they are.
        temperature: kelvin, of the simulation, in case energies are in kT.
        column: names of the columns whose sum is the bias, with commas between; found by default.
        unit: of the energies.
        every: rows from one frame to the next; found by default.
        first: row of the first frame, from 0; found by default.
        group: name of the bias, where several trajectories share one.
        molecule: with it, columns that are backbone torsions are compared with the frames.
    """
    colvar, trajectory = read_colvar(path), Path(trajectory)
    names = bias_columns(colvar, column)
    times = frame_times(trajectory)
    with open_trajectory(trajectory) as file:
        rows = frame_rows(colvar, file.n_frames, times, every=every, first=first)
        confirmed = None
        if molecule is not None and file.n_atoms == molecule.n_atoms:
            confirmed = confirm_rows(colvar, rows.index, file, molecule)
    values = np.sum([colvar.column(name) for name in names], axis=0)[rows.index]
    sentences = [f"the bias is {' + '.join(names)} in {unit}", rows.sentence, *colvar.remarks]
    sentences += [] if confirmed is None else [confirmed]
    growing = [name for name in names if name.lower().startswith("metad") and name.endswith(".bias")]
    if growing:
        sentences.append(
            f"{growing[0]} grows along time and makes weights that do not compare; rbias (CALC_RCT in PLUMED) does"
        )
    elif column is None and names[0].endswith(".bias"):
        sentences.append(
            f"{names[0]} is taken for a bias that stands still; if it is metadynamics under another name, it grows "
            "along time, and rbias is the column to give"
        )
    origin = f"{' + '.join(names)} of {colvar.path.name}"
    return GivenBias(_in_kj(values, unit, temperature, str(path)), origin, tuple(sentences), group)


def bias_from_file(
    path: str | Path,
    temperature: float,
    *,
    column: str | None = None,
    unit: BiasUnit = "kJ/mol",
    group: str | None = None,
) -> GivenBias:
    """Read one bias energy per frame from a .npy file, or from a .csv file.

    Args:
        path: the file; a .csv with several columns needs one whose name contains ``bias``, or the column's name.
        temperature: kelvin, of the simulation, in case energies are in kT.
        column: name of the column of a .csv file.
        unit: of the energies.
        group: name of the bias, where several trajectories share one.
    """
    path = Path(path)
    if not path.is_file():
        raise UserError(f"There is no file {path}: check --bias-energies.")
    values = _csv(path, column) if path.suffix.lower() == ".csv" else read_series(path)
    if not np.isfinite(values).all():
        bad = ~np.isfinite(values)
        raise UserError(f"{path}: {bad.sum()} bias energies are not finite, the first in row {bad.argmax()}.")
    return GivenBias(_in_kj(values, unit, temperature, str(path)), path.name, (), group)


def _in_kj(
    values: NDArray[np.float64], unit: BiasUnit, temperature: float, source: str
) -> NDArray[np.float64]:
    factors = {"kJ/mol": 1.0, "kcal/mol": 4.184, "kT": BOLTZMANN * temperature}
    if unit not in factors:
        raise UserError(f"A bias is not given in '{unit}'." + did_you_mean(unit, factors))
    energies = np.asarray(values * factors[unit], dtype=np.float64)
    worst = float(np.abs(energies).max(initial=0.0))
    if worst > _ABSURD:
        raise UserError(f"{source}: a bias of {worst:.3g} kJ/mol is absurd: check the column and the unit.")
    return energies


def _csv(path: Path, column: str | None) -> NDArray[np.float64]:
    try:
        lines = path.read_text().splitlines()
        mark = next((mark for mark in ",;\t" if lines and mark in lines[0]), ",")
        rows = [[word.strip() for word in row] for row in csv.reader(lines, delimiter=mark) if row]
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is not a text file.") from error
    except (OSError, csv.Error) as error:
        raise UserError(f"{path} cannot be read as a .csv file ({error}).") from error
    if not rows:
        raise UserError(f"{path} is empty.")
    named = _number(rows[0][0]) is None
    place = _place([word.lstrip("#").strip() for word in rows[0]], column, named, path)
    values = []
    for number, row in enumerate(rows[named:], 1 + named):
        value = _number(row[place]) if place < len(row) else None
        if value is None:
            word = row[place] if place < len(row) else ""
            raise UserError(f"{path}: '{word[:40]}' in row {number} is not a number.")
        values.append(value)
    return np.array(values, dtype=np.float64)


def _place(names: list[str], column: str | None, named: bool, path: Path) -> int:
    if not named:
        if len(names) > 1 or column is not None:
            raise UserError(f"{path} has {len(names)} columns without names: keep the bias alone.")
        return 0
    if column is not None:
        if column not in names:
            raise UserError(f"{path} has no column '{column}'." + did_you_mean(column, names))
        return names.index(column)
    found = [i for i, name in enumerate(names) if "bias" in name.lower()]
    if len(names) == 1 or len(found) == 1:
        return found[0] if found else 0
    raise UserError(f"{path}: say with --bias-column which is the bias; it has: {', '.join(names)}.")


def _number(word: str) -> float | None:
    try:
        return float(word)
    except ValueError:
        return None
