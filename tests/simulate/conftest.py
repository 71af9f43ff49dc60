"""A molecule whose energy is known in closed form, and a peptide to compare with OpenMM."""

import openmm
import pytest
from openmm import app

from boltzkit.molecule import Molecule, find_molecule

STIFFNESS, LENGTH = 1e5, 0.15


@pytest.fixture(scope="session")
def triangle() -> Molecule:
    """Three carbon atoms with a stiff spring between any two: three vibrations, so ⟨E⟩ = 3/2 k_BT."""
    topology, system, springs = app.Topology(), openmm.System(), openmm.HarmonicBondForce()
    residue = topology.addResidue("TRI", topology.addChain())
    atoms = [topology.addAtom(f"C{i}", app.element.carbon, residue) for i in range(3)]
    for a, b in ((0, 1), (1, 2), (0, 2)):
        topology.addBond(atoms[a], atoms[b])
        springs.addBond(a, b, LENGTH, STIFFNESS)
    for _ in atoms:
        system.addParticle(12.0)
    system.addForce(springs)
    corners = [[0.0, 0.0, 0.0], [LENGTH, 0.0, 0.0], [LENGTH / 2, LENGTH * 3**0.5 / 2, 0.0]]
    return Molecule.from_openmm(topology, system, corners, "triangle")


@pytest.fixture(scope="session")
def peptide() -> Molecule:
    return find_molecule("alanine-dipeptide-cartesian")
