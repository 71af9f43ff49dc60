"""Molecules that several tests look at, built once, and files made of them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import openmm
import pytest
from openmm import app, unit

from boltzkit.molecule import Molecule, find_molecule

Write = Callable[..., Path]


@pytest.fixture(scope="session")
def dipeptide() -> Molecule:
    return find_molecule("alanine-dipeptide-cartesian")


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write a structure, in nm, into a file of the test's own folder."""

    def write_structure(name: str, topology: Any, positions: Any) -> Path:
        path = tmp_path / name
        writer = app.PDBxFile if path.suffix == ".cif" else app.PDBFile
        with path.open("w") as file:
            writer.writeFile(topology, positions.numpy() * unit.nanometer, file, keepIds=True)
        return path

    return write_structure


@pytest.fixture
def dipeptide_pdb(write: Write, dipeptide: Molecule) -> Path:
    return write("dipeptide.pdb", dipeptide.topology, dipeptide.positions)


@pytest.fixture(scope="session")
def energy() -> Callable[[Any, Any], float]:
    """Potential energy in kJ/mol of a System at positions in nm, by OpenMM's Reference platform."""

    def evaluate(system: Any, positions: Any) -> float:
        platform = openmm.Platform.getPlatformByName("Reference")
        context = openmm.Context(system, openmm.VerletIntegrator(0.001), platform)
        context.setPositions(positions.numpy())
        state = context.getState(energy=True)
        return float(state.getPotentialEnergy().value_in_unit(unit.kilojoule_per_mole))

    return evaluate
