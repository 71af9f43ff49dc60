"""Named molecules are what their names say, alanine dipeptide by an independent build of it."""

from collections.abc import Callable
from typing import Any

import openmm
import pytest
import torch

from boltzkit.errors import UserError
from boltzkit.molecule import MOLECULES, Molecule, find_molecule, named
from boltzkit.molecule.stereo import handed_centres, handedness

Energy = Callable[[Any, Any], float]
SIZES = {
    "alanine-dipeptide": (22, 0, 1),
    "alanine-dipeptide-cartesian": (22, 0, 1),
    "alanine-tetrapeptide": (42, 0, 3),
    "alanine-hexapeptide": (62, 32, 5),
}
"""Atoms, constraints and handed centres, as `handed_centres` counts them."""


@pytest.mark.parametrize("name", MOLECULES)
def test_named_molecules_have_their_atoms_and_constraints(name: str) -> None:
    molecule = find_molecule(name)
    assert molecule.name == name
    centres = handed_centres(molecule.topology, name)
    assert (molecule.n_atoms, len(molecule.constraints), len(centres)) == SIZES[name]
    assert (handedness(molecule.positions, centres) > 0.5).all()


def test_names_are_found_however_they_are_spelled() -> None:
    assert find_molecule("Alanine_Dipeptide").name == "alanine-dipeptide"
    assert all(getattr(named, key.replace("-", "_")) is build for key, build in MOLECULES.items())
    with pytest.raises(UserError, match="Did you mean 'alanine-dipeptide'"):
        find_molecule("alanine-dipeptid")
    with pytest.raises(UserError, match="sequences in capitals such as ACE-VAL-NME"):
        find_molecule("ace-val-nme")


def distorted(molecule: Molecule, size: float, n: int = 20) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    noise = torch.randn(n, *molecule.positions.shape, generator=generator, dtype=torch.float64)
    return list(molecule.positions + size * noise)


def angles(system: Any) -> dict[tuple[int, int, int], tuple[float, float]]:
    force = next(force for force in system.getForces() if isinstance(force, openmm.HarmonicAngleForce))
    rows = [force.getAngleParameters(index) for index in range(force.getNumAngles())]
    return {(min(a, c), b, max(a, c)): (angle._value, k._value) for a, b, c, angle, k in rows}


def test_alanine_dipeptide_is_that_of_openmmtools(energy: Energy) -> None:
    testsystems = pytest.importorskip("openmmtools.testsystems")
    theirs = testsystems.AlanineDipeptideImplicit(constraints=None).system
    ours = find_molecule("alanine-dipeptide")
    # The atoms stand in the same order, so structures carry over as they are.
    for size in (0.001, 0.003, 0.01):
        for x in distorted(ours, size):
            assert energy(ours.system, x) == pytest.approx(energy(theirs, x), abs=5e-4)
    # At 0.02 nm, thousands of kJ/mol up, the difference reaches 1.3e-3 kJ/mol: the two files round equilibrium
    # angles differently, by less than 1e-6 of their size, and that grows with the strain.
    for x in distorted(ours, 0.02):
        assert energy(ours.system, x) == pytest.approx(energy(theirs, x), rel=1e-6)
    assert angles(ours.system).keys() == angles(theirs).keys()
    for key, parameters in angles(ours.system).items():
        assert parameters == pytest.approx(angles(theirs)[key], rel=1e-6)


def test_the_comparison_tells_solvent_models_apart(energy: Energy) -> None:
    testsystems = pytest.importorskip("openmmtools.testsystems")
    theirs = testsystems.AlanineDipeptideImplicit(constraints=None).system
    obc2 = Molecule.from_sequence("ACE-ALA-NME", ("amber96.xml", "amber96_obc.xml"))
    assert all(abs(energy(obc2.system, x) - energy(theirs, x)) > 1 for x in distorted(obc2, 0.003, 5))
