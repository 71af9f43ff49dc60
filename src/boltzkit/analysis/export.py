"""An ensemble as files that other programs read: a trajectory with its topology and weights."""

import importlib
import io
import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from boltzkit.analysis.by_mdtraj import mdtraj_module, mdtraj_topology
from boltzkit.analysis.resampling import systematic
from boltzkit.ensemble import Ensemble
from boltzkit.errors import UserError, did_you_mean
from boltzkit.molecule import Molecule, pdb_text
from boltzkit.randomness import generator
from boltzkit.storage import disk_errors_explained, write_bytes

__all__ = ["FORMATS", "Exported", "Format", "export"]

Format = Literal["xtc", "dcd", "h5", "pdb"]
_PURPOSE = "Writing trajectories"


@dataclass(frozen=True)
class Exported:
    """What was written.

    Attributes:
        trajectory: the file with the frames.
        n_frames: how many.
        n_left_out: failed samples, which are not among them.
        n_distinct: different samples among the frames; fewer than frames after resampling.
    """

    trajectory: Path
    n_frames: int
    n_left_out: int
    n_distinct: int

    def sentence(self) -> str:
        """Say it in words."""
        left = f"; {self.n_left_out:,} failed samples are left out" if self.n_left_out else ""
        distinct = f" of {self.n_distinct:,} samples" if self.n_distinct < self.n_frames else ""
        return f"{self.trajectory} holds {self.n_frames:,} frames{distinct}{left}."


def export(
    ensemble: Ensemble,
    folder: str | Path,
    format: Format = "xtc",
    resampled: int | None = None,
    seed: int = 0,
) -> Exported:
    """Write ``trajectory.…``, ``topology.pdb``, ``weights.npy`` and ``weights.csv`` into a folder.

    Frame i belongs to row i of the weights, which sum to one. Failed samples have no weight and are left out. Resampled
    frames stand for themselves: their weights are all equal, and samples of large weight come up several times. XTC
    rounds positions to 0.001 nm and is not for computing energies again; DCD and HDF5 keep them. Times are frame
    numbers, as samples have no order in time.

    Args:
        ensemble: of a molecule.
        folder: where to write; other files there stay.
        format: ``xtc``, ``dcd``, ``h5`` (as MDTraj lays it out) or ``pdb``.
        resampled: write so many unweighted frames, picked by systematic resampling.
        seed: of the resampling.
    """
    if format not in FORMATS:
        raise UserError(f"Trajectories are not written as '{format}'.{did_you_mean(format, FORMATS)}")
    if ensemble.subject is None:
        raise UserError(f"{ensemble.name} is no molecule, so its samples are no trajectory.")
    folder, molecule = Path(folder), ensemble.subject.molecule
    rows, share = _frames(ensemble, resampled, seed)
    path = folder / f"trajectory.{format}"
    _in_one_step(path, lambda partial: FORMATS[format](partial, ensemble.x[rows], molecule))
    write_bytes(folder / "topology.pdb", pdb_text(molecule, molecule.positions).encode())
    _write_weights(folder, ensemble, rows, share)
    return Exported(path, len(rows), ensemble.weights.n_failed, len(torch.unique(rows)))


def _frames(ensemble: Ensemble, resampled: int | None, seed: int) -> tuple[Tensor, Tensor]:
    """Return the samples to write and their weights."""
    if resampled is not None:
        rows = systematic(ensemble.weights, resampled, generator(seed, "export"))
        return rows, torch.full((resampled,), 1 / resampled, dtype=torch.float64)
    share = ensemble.weights.normalised()
    rows = ensemble.weights.values.isfinite().nonzero().squeeze(1)
    return rows, share[rows]


def _write_weights(folder: Path, ensemble: Ensemble, rows: Tensor, share: Tensor) -> None:
    buffer = io.BytesIO()
    np.save(buffer, share.numpy())
    write_bytes(folder / "weights.npy", buffer.getvalue())
    columns = (share, ensemble.weights.values[rows], ensemble.energy[rows])
    lines = ["frame,sample,weight,log_weight,energy_kT"]
    values = zip(rows.tolist(), *(column.tolist() for column in columns), strict=True)
    lines += [f"{i},{sample},{w:.9g},{log_w:.12g},{u:.12g}" for i, (sample, w, log_w, u) in enumerate(values)]
    write_bytes(folder / "weights.csv", ("\n".join(lines) + "\n").encode())


def _in_one_step(path: Path, write: Callable[[Path], None]) -> None:
    """Write beside the path under a name with the same ending, then move it there."""
    with disk_errors_explained(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_name(f".partial-{path.name}")
        try:
            write(partial)
            os.replace(partial, path)
        finally:
            partial.unlink(missing_ok=True)


def _by_mdtraj(path: Path, x: Tensor, molecule: Molecule) -> None:
    topology = mdtraj_topology(molecule, _PURPOSE)
    trajectory = mdtraj_module(_PURPOSE).Trajectory(_positions(x), topology, time=np.arange(len(x)))
    trajectory.save(str(path))


def _hdf5(path: Path, x: Tensor, molecule: Molecule) -> None:
    """Lay frames out as MDTraj does, by h5py: MDTraj itself would need PyTables for it."""
    try:
        h5py = importlib.import_module("h5py")
    except ImportError as error:
        raise UserError("Writing .h5 files needs h5py: pip install h5py.") from error
    with h5py.File(path, "w") as file:
        for key, value in (("conventions", "Pande"), ("conventionVersion", "1.1"), ("program", "boltzkit")):
            file.attrs[key] = np.bytes_(value)
        coordinates = file.create_dataset("coordinates", data=_positions(x), compression="gzip", shuffle=True)
        coordinates.attrs["units"] = np.bytes_("nanometers")
        time = file.create_dataset("time", data=np.arange(len(x), dtype=np.float32))
        time.attrs["units"] = np.bytes_("picoseconds")
        file.create_dataset("topology", data=np.array([json.dumps(_topology(molecule)).encode()]))


def _topology(molecule: Molecule) -> dict[str, Any]:
    """Return chains, residues, atoms and bonds as MDTraj's files have them."""
    chains = [
        {
            "index": chain.index,
            "residues": [
                {
                    "index": residue.index,
                    "name": residue.name,
                    "resSeq": _sequence_number(residue.id, residue.index),
                    "segmentID": "",
                    "atoms": [
                        {"index": a.index, "name": a.name, "element": a.element.symbol if a.element else ""}
                        for a in residue.atoms()
                    ],
                }
                for residue in chain.residues()
            ],
        }
        for chain in molecule.topology.chains()
    ]
    return {"chains": chains, "bonds": molecule.bonds.tolist()}


def _sequence_number(text: str, index: int) -> int:
    try:
        return int(text)
    except ValueError:  # mmCIF allows any label
        return int(index) + 1


def _positions(x: Tensor) -> NDArray[np.float32]:
    return x.float().numpy()


FORMATS: MappingProxyType[str, Callable[[Path, Tensor, Molecule], None]] = MappingProxyType(
    {"xtc": _by_mdtraj, "dcd": _by_mdtraj, "h5": _hdf5, "pdb": _by_mdtraj}
)
"""Writers by the ending of a file's name."""
