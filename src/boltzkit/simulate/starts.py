"""Structures to start simulations from, out of files."""

from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from openmm import app, unit
from torch import Tensor

from boltzkit.data.recognise import refuse_foreign_atoms, refuse_foreign_frames
from boltzkit.data.trajectory_files import open_trajectory
from boltzkit.errors import UserError
from boltzkit.molecule import Molecule
from boltzkit.molecule.parts import existing, reading

__all__ = ["read_starts"]

_STRUCTURES = {".pdb": app.PDBFile, ".cif": app.PDBxFile, ".mmcif": app.PDBxFile, ".pdbx": app.PDBxFile}


def read_starts(path: Path, molecule: Molecule) -> Tensor:
    """Read all models of a PDB or mmCIF file, or all frames of a trajectory, ``(n, atoms, 3)`` nm.

    Every structure must be of the molecule, with its order of atoms; the bonds tell.
    """
    frames = _models(path, molecule) if path.suffix.lower() in _STRUCTURES else _frames(path, molecule)
    if not np.isfinite(frames).all():
        raise UserError(f"{path} holds coordinates that are not finite: a simulation cannot start there.")
    for number, frame in enumerate(frames):
        refuse_foreign_frames(frame[None].astype(np.float32), molecule, f"{path}, structure {number + 1}")
    return torch.from_numpy(frames)


def _models(path: Path, molecule: Molecule) -> NDArray[np.float64]:
    with reading(existing(path), "a structure"), path.open() as text:
        file = _STRUCTURES[path.suffix.lower()](text)
    symbols = tuple(atom.element.symbol if atom.element else "" for atom in file.topology.atoms())
    refuse_foreign_atoms(len(symbols), symbols, molecule, str(path))
    models = [file.getPositions(asNumpy=True, frame=i) for i in range(file.getNumFrames())]
    return np.array([model.value_in_unit(unit.nanometer) for model in models], dtype=np.float64)


def _frames(path: Path, molecule: Molecule) -> NDArray[np.float64]:
    with open_trajectory(path) as trajectory:
        refuse_foreign_atoms(trajectory.n_atoms, trajectory.elements, molecule, str(path))
        return trajectory.read(0, trajectory.n_frames).astype(np.float64)
