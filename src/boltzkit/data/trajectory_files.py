"""Trajectories of other programs, frame by frame in nm: XTC, TRR, DCD, HDF5 and NumPy files."""

import functools
import importlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from boltzkit.data import gromacs_reader
from boltzkit.data.dcd import DcdFile
from boltzkit.data.numpy_files import open_archive, read_npy
from boltzkit.errors import UserError, did_you_mean

__all__ = ["FORMATS", "TrajectoryFile", "open_trajectory"]

_LENGTHS = {"nanometers": 1.0, "nanometer": 1.0, "nm": 1.0, "angstroms": 0.1, "angstrom": 0.1, "A": 0.1}


@dataclass(frozen=True, eq=False)
class TrajectoryFile:
    """An open trajectory.

    Attributes:
        path: the file.
        n_frames: how many frames it has.
        n_atoms: atoms of a frame.
        read: ``read(start, stop)`` returns frames ``(stop − start, atoms, 3)`` in nm, float32.
        energy: energies that came with the file, ``(n_frames,)``, in whatever unit.
        elements: symbols of the atoms, where the file knows them.
    """

    path: Path
    n_frames: int
    n_atoms: int
    read: Callable[[int, int], NDArray[np.float32]]
    energy: NDArray[np.float64] | None = None
    elements: tuple[str, ...] | None = None


@contextmanager
def open_trajectory(path: str | Path) -> Iterator[TrajectoryFile]:
    """Open a trajectory by the ending of its name; whatever is wrong with it becomes one sentence."""
    path = Path(path)
    if not os.path.isfile(path):  # unlike Path's own, no error for a name that no file can have
        raise UserError(f"There is no file {path}.")
    ending = path.suffix.lower()
    if ending not in FORMATS:
        raise UserError(
            f"{path}: trajectories are not read from '{ending}' files." + did_you_mean(ending, FORMATS)
        )
    with ExitStack() as stack:
        with _explained(path):
            opened = FORMATS[ending](path, stack)
        if opened.n_frames == 0:
            raise UserError(f"{path} holds no frames.")
        yield opened


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    try:
        yield
    except (
        OSError,
        RuntimeError,
        ValueError,
        EOFError,
        LookupError,
        MemoryError,
    ) as error:
        reason = str(error).strip().rstrip(".") or type(error).__name__
        raise UserError(f"{path} could not be read as a {path.suffix} file: {reason}.") from error


def _library(name: str, path: Path) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise UserError(
            f"{path}: reading {path.suffix} files needs {name.split('.')[0]}: pip install {name.split('.')[0]}."
        ) from error


def _gromacs(path: Path, stack: ExitStack) -> TrajectoryFile:
    """XTC and TRR, by mdtraj."""
    formats = _library("mdtraj.formats", path)
    kind = formats.XTCTrajectoryFile if path.suffix.lower() == ".xtc" else formats.TRRTrajectoryFile
    if not path.stat().st_size:
        raise UserError(f"{path} holds no frames.")
    status = path.stat()
    _refuse_deadly(path, status.st_size, status.st_mtime_ns)
    file = stack.enter_context(kind(str(path)))
    n_frames, n_atoms = len(file), file.read(n_frames=1)[0].shape[1]

    def read(start: int, stop: int) -> NDArray[np.float32]:
        with _explained(path):
            file.seek(start)
            frames = np.asarray(file.read(n_frames=stop - start)[0], dtype=np.float32)
            if len(frames) != stop - start:
                raise ValueError(f"it ends after frame {start + len(frames) - 1}")
            return frames

    return TrajectoryFile(path, n_frames, n_atoms, read)


@functools.lru_cache(maxsize=1000)
def _refuse_deadly(path: Path, size: int, changed: int) -> None:
    """Refuse a file that kills its reader: another process reads it first, once for every state of the file."""
    command = [sys.executable, "-P", gromacs_reader.__file__, str(path)]
    patience = 120 + size / 1e6  # seconds; honest reading takes a tenth of that
    try:
        ended = subprocess.run(command, capture_output=True, text=True, timeout=patience, check=False)
    except subprocess.TimeoutExpired as error:
        raise UserError(f"{path} is damaged: reading it did not end within {patience:.0f} s.") from error
    if ended.returncode < 0:
        raise UserError(f"{path} is damaged: it kills the library that reads it. Copy or convert it again.")
    if ended.stdout.startswith("MemoryError"):
        raise UserError(f"{path} is damaged: it asks for more memory than its frames can need.")
    if ended.returncode:
        # Not tried again here: what fails in good order there may have overwritten memory before it did.
        reason = ended.stdout.partition(": ")[2].strip().rstrip(".") or "its reader failed"
        if ended.stdout.startswith("EOFError"):
            raise UserError(
                f"{path} is cut off after {reason} complete frames: copy it again, or cut it there with the tool that "
                "wrote it."
            )
        raise UserError(f"{path} could not be read as a {path.suffix} file: {reason}.")


def _dcd(path: Path, stack: ExitStack) -> TrajectoryFile:
    file = DcdFile(path)
    return TrajectoryFile(path, file.n_frames, file.n_atoms, file.read)


def _hdf5(path: Path, stack: ExitStack) -> TrajectoryFile:
    """HDF5 as mdtraj and OpenMM's reporters lay it out: ``coordinates``, and perhaps ``potentialEnergy``."""
    file = stack.enter_context(_library("h5py", path).File(path, "r"))
    if "coordinates" not in file:
        raise UserError(f"{path} has no dataset 'coordinates'; it has: {', '.join(file) or 'nothing'}.")
    coordinates = file["coordinates"]
    unit = _text(coordinates.attrs.get("units", "nanometers"))
    if unit not in _LENGTHS:
        raise UserError(f"{path} gives coordinates in '{unit}', which is not known: give them in nanometers.")
    _refuse_shape(path, coordinates)

    def read(start: int, stop: int) -> NDArray[np.float32]:
        with _explained(path):
            return np.asarray(coordinates[start:stop] * _LENGTHS[unit], dtype=np.float32)

    energy = (
        np.asarray(file["potentialEnergy"], dtype=np.float64).ravel() if "potentialEnergy" in file else None
    )
    elements = _mdtraj_elements(_text(file["topology"][0])) if "topology" in file else None
    return TrajectoryFile(path, coordinates.shape[0], coordinates.shape[1], read, energy, elements)


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


def _mdtraj_elements(topology: str) -> tuple[str, ...]:
    content = json.loads(topology)
    rows = [atom for chain in content["chains"] for residue in chain["residues"] for atom in residue["atoms"]]
    return tuple(atom["element"] for atom in sorted(rows, key=lambda atom: atom["index"]))


def _npy(path: Path, stack: ExitStack) -> TrajectoryFile:
    return _in_memory(path, read_npy(path, mapped=True))


def _npz(path: Path, stack: ExitStack) -> TrajectoryFile:
    with open_archive(path) as archive:
        if "positions" not in archive.names:
            raise UserError(
                f"{path} has no array 'positions'; it has: {', '.join(archive.names) or 'nothing'}."
            )
        energy = np.asarray(archive.read("energy"), dtype=np.float64) if "energy" in archive.names else None
        return _in_memory(path, archive.read("positions"), energy)


def _in_memory(path: Path, frames: NDArray[Any], energy: NDArray[np.float64] | None = None) -> TrajectoryFile:
    _refuse_shape(path, frames)

    def read(start: int, stop: int) -> NDArray[np.float32]:
        with np.errstate(over="ignore"):  # what does not fit becomes infinite, and is left out
            return np.array(frames[start:stop], dtype=np.float32)

    return TrajectoryFile(path, frames.shape[0], frames.shape[1], read, energy)


def _refuse_shape(path: Path, array: Any) -> None:
    if len(array.shape) != 3 or array.shape[2] != 3 or array.dtype.kind not in "fiu":
        raise UserError(
            f"{path} holds {array.dtype} of shape {array.shape}, not numbers of shape (frames, atoms, 3)."
        )


FORMATS: MappingProxyType[str, Callable[[Path, ExitStack], TrajectoryFile]] = MappingProxyType(
    {
        ".xtc": _gromacs,
        ".trr": _gromacs,
        ".dcd": _dcd,
        ".h5": _hdf5,
        ".hdf5": _hdf5,
        ".npy": _npy,
        ".npz": _npz,
    }
)
"""Readers by the ending of a file's name. NumPy files are taken as nm."""
