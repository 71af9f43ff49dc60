"""One piece of a trajectory: which of its frames are sound, and their energies. Here or in a worker, bit for bit."""

import json
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import openmm
import torch
from numpy.typing import NDArray
from openmm import app

from boltzkit.data.energies import PotentialEnergy
from boltzkit.data.recognise import broken_bonds
from boltzkit.data.trajectory_files import open_trajectory
from boltzkit.energy.constants import BOLTZMANN
from boltzkit.molecule import Molecule
from boltzkit.workers import Item, Tell

__all__ = ["Evaluated", "Evaluator", "evaluate_piece", "piece_item"]

_ABSURD = 1e8
"""Reduced energy at which atoms lie on each other; no simulation visits it, and energies are regularised from there."""


class Evaluated(NamedTuple):
    """What frames are worth.

    Attributes:
        columns: ``energy``, kJ/mol, and perhaps ``forces``, of the frames that are sound.
        reasons: for every frame why it is not, "" if it is.
    """

    columns: dict[str, NDArray[Any]]
    reasons: NDArray[np.str_]


class Evaluator:
    """Energies of one molecule's frames, each checked first.

    Args:
        molecule: whose frames they are.
        temperature: kelvin.
        forces: whether to compute them too.
    """

    def __init__(self, molecule: Molecule, temperature: float, forces: bool) -> None:
        self.potential = PotentialEnergy(molecule)
        self._molecule, self._temperature, self._forces = molecule, temperature, forces

    def __call__(self, positions: NDArray[np.float32]) -> Evaluated:
        """Evaluate frames ``(n, atoms, 3)`` nm; one energy evaluation each."""
        reasons = np.full(len(positions), "", dtype="U40")
        finite = np.isfinite(positions).all((1, 2))
        reasons[~finite] = "coordinates are not finite"
        rows = np.flatnonzero(finite)
        broken = broken_bonds(positions[rows], self._molecule)
        reasons[rows[broken]] = "a bond is broken"
        rows = rows[~broken]
        columns: dict[str, NDArray[Any]] = {}
        if self._forces:
            columns["energy"], columns["forces"] = self.potential.with_forces(positions[rows])
            sound = np.isfinite(columns["forces"].astype(np.float32)).all((1, 2))
        else:
            columns["energy"] = self.potential(positions[rows])
            sound = np.full(len(rows), True)
        sound &= np.abs(columns["energy"]) < _ABSURD * BOLTZMANN * self._temperature
        reasons[rows[~sound]] = f"no finite energy below {_ABSURD:g} k_BT"
        return Evaluated({name: values[sound] for name, values in columns.items()}, reasons)


def piece_item(
    path: Path, start: int, stop: int, molecule: Molecule, temperature: float, forces: bool
) -> Item:
    """Return the work on frames start to stop of a file that workers can see."""
    return Item(
        "piece",
        f"{path.name}, frames {start} to {stop - 1}",
        f"{__name__}:evaluate_piece",
        {
            "file": str(path.resolve()),
            "start": start,
            "stop": stop,
            "molecule": _plain(molecule),
            "temperature": temperature,
            "forces": forces,
        },
    )


def evaluate_piece(arguments: Mapping[str, Any], tell: Tell) -> dict[str, NDArray[Any]]:
    """Do that work, in a worker."""
    evaluator = _evaluator(arguments["molecule"], arguments["temperature"], arguments["forces"])
    with open_trajectory(arguments["file"]) as file:
        found = evaluator(file.read(arguments["start"], arguments["stop"]))
    return {**found.columns, "reasons": found.reasons}


@lru_cache(maxsize=2)
def _evaluator(molecule: str, temperature: float, forces: bool) -> Evaluator:
    return Evaluator(_molecule(molecule), temperature, forces)


@lru_cache(maxsize=2)
def _plain(molecule: Molecule) -> str:
    """Return what energies and checks of frames depend on; numbers keep all their digits."""
    content = {
        "name": molecule.name,
        "system": openmm.XmlSerializer.serialize(molecule.system),
        "bonds": molecule.bonds.tolist(),
        "positions": molecule.positions.tolist(),
        "minimum_energy": molecule.minimum_energy,
    }
    return json.dumps(content)


def _molecule(plain: str) -> Molecule:
    """Return the molecule of such a description, whose atoms have no names."""
    content = json.loads(plain)
    topology = app.Topology()
    residue = topology.addResidue("ALL", topology.addChain())
    atoms = [topology.addAtom(str(i), None, residue) for i in range(len(content["positions"]))]
    for a, b in content["bonds"]:
        topology.addBond(atoms[a], atoms[b])
    positions = torch.tensor(content["positions"], dtype=torch.float64)
    system = openmm.XmlSerializer.deserialize(content["system"])
    return Molecule(
        content["name"], topology, system, positions, positions, content["minimum_energy"], residual_force=0.0
    )
