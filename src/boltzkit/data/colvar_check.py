"""Whether rows and frames belong together: a torsion that PLUMED wrote must be that of the frame beside it."""

import math
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from boltzkit.data.colvar import Colvar
from boltzkit.data.trajectory_files import TrajectoryFile
from boltzkit.errors import UserError
from boltzkit.molecule import Backbone, Molecule
from boltzkit.molecule.torsions import dihedral

__all__ = ["confirm_rows"]

_SAME = 0.03
"""Root mean square difference, rad, of one and the same torsion: XTC's three decimals make 0.01."""
_CLEARLY = 3.0
"""Times by which other rows must fit better to be the right ones."""
_LOOKED_AT = 200
"""Frames, evenly spread, that tell."""


def confirm_rows(
    colvar: Colvar, index: NDArray[np.int64], file: TrajectoryFile, molecule: Molecule
) -> str | None:
    """Return a sentence where some column is a backbone torsion of the frames, None where none is.

    Refuses rows that would fit the frames if they were taken earlier or later, by up to one frame.

    Args:
        colvar: the table.
        index: row of each frame.
        file: the open trajectory.
        molecule: whose torsions are compared.
    """
    names, atoms = _torsions(molecule)
    columns = [i for i, name in enumerate(colvar.fields) if name != "time" and _angle(colvar.values[:, i])]
    if not names or not columns:
        return None
    chosen = np.unique(np.linspace(0, file.n_frames - 1, _LOOKED_AT).astype(np.int64))
    frames = np.concatenate([file.read(int(i), int(i) + 1) for i in chosen])
    angles = dihedral(torch.from_numpy(frames).double(), atoms).numpy()
    stride = int(index[1] - index[0]) if len(index) > 1 else 1
    matches = {}
    for shift in sorted(range(-stride, stride + 1), key=abs):
        rows = index[chosen] + shift
        inside = (rows >= 0) & (rows < len(colvar))
        matches[shift] = _match(colvar.values[rows[inside]][:, columns], angles[inside])
    best = min(matches, key=lambda shift: matches[shift][0])
    spread, column, torsion = matches[best]
    if spread > _SAME:
        return None
    what = f"{colvar.fields[columns[column]]} is {names[torsion]}"
    if matches[0][0] > _CLEARLY * spread + 1e-4:
        raise UserError(
            f"{colvar.path}: {what} of the frames only if rows are taken {abs(best)} "
            f"{'later' if best > 0 else 'earlier'}, from row {index[0] + best} on: say so with --colvar-every {stride} "
            f"and --colvar-first {index[0] + best}, or drop the frames that have no row."
        )
    return f"its {what} of the frames beside it, so rows and frames belong together"


def _torsions(molecule: Molecule) -> tuple[list[str], torch.Tensor]:
    backbone = Backbone.of(molecule.topology)
    names = [f"{letter} of {name}" for letter in ("φ", "ψ") for name in backbone.names]
    return names, torch.cat([backbone.phi, backbone.psi])


def _angle(values: NDArray[np.float64]) -> bool:
    """Tell whether numbers may be angles in radians that move."""
    return bool(np.isfinite(values).all() and np.abs(values).max() < 3.15 and values.std() > 3 * _SAME)


def _match(values: NDArray[np.float64], angles: NDArray[Any]) -> tuple[float, int, int]:
    """Return by how much the most similar column ``(n, columns)`` and torsion ``(n, torsions)`` differ, and both."""
    if len(values) < 3:
        return math.inf, 0, 0
    away = values[:, :, None] - angles[:, None, :]
    spread = np.sqrt((np.arctan2(np.sin(away), np.cos(away)) ** 2).mean(0))
    column, torsion = np.unravel_index(spread.argmin(), spread.shape)
    return float(spread[column, torsion]), int(column), int(torsion)
