"""Umbrella windows: harmonic biases on a torsion or a distance, computed from positions."""

import math
import tomllib
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field, model_validator

from boltzkit.config import Config
from boltzkit.data.bias import FrameBias
from boltzkit.data.manifest import Manifest
from boltzkit.data.runs import count
from boltzkit.errors import UserError, did_you_mean
from boltzkit.molecule.torsions import dihedral

__all__ = ["Window", "WindowBias", "read_umbrella", "stored_windows"]

_CHUNK = 16_384


class Window(Config):
    r"""A harmonic bias $V(x) = \tfrac12 k\,(s(x) - s_0)^2$; a torsion's difference is taken the short way round."""

    torsion: tuple[int, int, int, int] | None = None
    """Four atoms, numbered from 0, whose dihedral angle is held (IUPAC's sign, trans is π)."""
    distance: tuple[int, int] | None = None
    """Two atoms, numbered from 0, whose distance is held."""
    centre: float
    """s₀: rad or nm."""
    force_constant: float = Field(ge=0)
    """k: kJ/mol/rad² or kJ/mol/nm², with the factor ½ in front; 0 is a simulation without bias."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if (self.torsion is None) == (self.distance is None):
            raise UserError("An umbrella window holds either a torsion or a distance: give the atoms of one.")
        if min(self.atoms) < 0 or len(set(self.atoms)) < len(self.atoms):
            raise UserError(f"The atoms {list(self.atoms)} of a window must be different numbers from 0 on.")
        if self.torsion is not None and abs(self.centre) > 2 * math.pi:
            raise UserError(
                f"A torsion cannot be held at {self.centre:g} rad; in degrees that is {math.radians(self.centre):.4g}"
                " rad: give radians, and the force constant in kJ/mol/rad²."
            )
        return self

    @property
    def atoms(self) -> tuple[int, ...]:
        """The atoms of the coordinate."""
        return self.torsion or self.distance or ()

    def coordinate(self, positions: NDArray[np.float32]) -> NDArray[np.float64]:
        """Return s, ``(n, atoms, 3)`` nm -> ``(n,)`` rad or nm."""
        parts = [np.empty(0)]
        for start in range(0, len(positions), _CHUNK):
            x = torch.from_numpy(positions[start : start + _CHUNK]).double()
            if self.torsion is not None:
                parts.append(dihedral(x, torch.tensor([self.torsion]))[:, 0].numpy())
            else:
                one, other = self.atoms
                parts.append((x[:, one] - x[:, other]).norm(dim=-1).numpy())
        return np.concatenate(parts)

    def difference(self, coordinate: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return s − s₀, for a torsion within [−π, π]."""
        plain = coordinate - self.centre
        return np.arctan2(np.sin(plain), np.cos(plain)) if self.torsion is not None else plain

    def energy(self, coordinate: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return V in kJ/mol of values of s."""
        return 0.5 * self.force_constant * self.difference(coordinate) ** 2


@dataclass(frozen=True, eq=False)
class WindowBias(FrameBias):
    """The bias of a trajectory's own window.

    Attributes:
        window: its parameters.
    """

    window: Window

    @property
    def source(self) -> dict[str, Any]:
        """The parameters, from which the bias of any frame under any window follows."""
        return {"umbrella": [self.window.model_dump(mode="json", exclude_none=True)]}

    def refuse_other(self, n_frames: int, path: Path) -> None:
        """Any number of frames is fine."""

    def energy(self, frames: NDArray[np.int64], positions: NDArray[np.float32]) -> NDArray[np.float64]:
        """Return the energies, from positions alone."""
        return self.window.energy(self.window.coordinate(positions))


def read_umbrella(path: str | Path, n_atoms: int) -> list[tuple[Path, Window]]:
    """Read trajectories and their windows from a TOML file.

    Each ``[[window]]`` has ``file`` (below the TOML file's folder), ``torsion`` or ``distance``, ``centre`` and
    ``force_constant``; what all share may stand once above the windows.

    Args:
        path: the TOML file.
        n_atoms: of the molecule, to check the atoms with.
    """
    path = Path(path)
    if not path.is_file():
        raise UserError(f"There is no file {path}: check --umbrella.")
    try:
        content = tomllib.loads(path.read_text())
    except (
        OSError,
        ValueError,
        RecursionError,
    ) as error:  # also numbers of too many digits, too many brackets
        raise UserError(f"{path} is not valid TOML ({error}).") from error
    entries = content.pop("window", None)
    if not isinstance(entries, list) or not entries or not all(isinstance(entry, dict) for entry in entries):
        raise UserError(f"{path} names no windows: write a table [[window]] for each.")
    found = [_entry(content | entry, number, path, n_atoms) for number, entry in enumerate(entries, 1)]
    files = [file.resolve() for file, _ in found]
    twice = next((file for file, times in Counter(files).items() if times > 1), None)
    if twice is not None:
        raise UserError(f"{path} names {twice.name} for two windows: a trajectory ran in one.")
    return found


def _entry(entry: Mapping[str, Any], number: int, path: Path, n_atoms: int) -> tuple[Path, Window]:
    where = f"{path}, window {number}"
    file = entry.get("file")
    if not isinstance(file, str):
        near = did_you_mean("file", entry) if entry else ""
        raise UserError(f'{where} has no file = "…".{near}')
    settings = {name: value for name, value in entry.items() if name != "file"}
    for name in settings:
        if name not in Window.model_fields:
            raise UserError(
                f"{where}: there is no setting '{name}'." + did_you_mean(name, Window.model_fields)
            )
    for name in ("centre", "force_constant"):
        if name not in settings:
            raise UserError(f"{where} has no {name}.")
    try:
        window = Window.parse(settings, source=where)
    except UserError as error:
        text = str(error)
        raise UserError(text if text.startswith(where) else f"{where}: {text}") from error
    if max(window.atoms) >= n_atoms:
        raise UserError(
            f"{where}: there is no atom {max(window.atoms)}; the {n_atoms} atoms are numbered from 0."
        )
    return path.parent / file, window


def stored_windows(manifest: Manifest) -> dict[int, Window]:
    """Return the window of each trajectory of a dataset, as its shards tell; empty where there are none.

    A shard that names one window means all of its trajectories; one that names several means one trajectory each, in
    the order of their numbers.
    """
    found: dict[int, Window] = {}
    for shard in manifest.shards:
        told = shard.source.get("umbrella", [])
        if not isinstance(told, list):
            raise UserError(
                f"Shard {shard.key} names umbrella windows that are no list: make the dataset anew."
            )
        windows = [Window.parse(content, source=f"shard {shard.key}") for content in told]
        # A sample has one trajectory: a claim of more of them is not written out, however large it is.
        n_trajectories = count(shard.trajectories)
        if not windows:
            continue
        if len(windows) not in (1, n_trajectories) or n_trajectories > max(shard.samples, len(windows)):
            raise UserError(
                f"Shard {shard.key} has {n_trajectories} trajectories but names {len(windows)} umbrella windows."
            )
        numbers = [number for first, last in shard.trajectories for number in range(first, last + 1)]
        for place, number in enumerate(numbers):
            found[number] = windows[place if len(windows) > 1 else 0]
    return found
