"""Molecules: a minimised reference, constraints that hold, a hash that sees the smallest change."""

import dataclasses
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import openmm
import pytest
import torch
from openmm import unit

from boltzkit.errors import UserError
from boltzkit.molecule import Molecule, find_molecule, unit_mistake


def test_a_molecule_holds_what_it_promises(dipeptide: Molecule) -> None:
    assert dipeptide.n_atoms == 22 == dipeptide.topology.getNumAtoms() == dipeptide.system.getNumParticles()
    for positions in (dipeptide.positions, dipeptide.start_positions):
        assert positions.shape == (22, 3)
        assert positions.dtype == torch.float64
    assert dipeptide.bonds.shape == (21, 2)
    assert len(dipeptide.constraints) == 0
    assert repr(dipeptide) == "Molecule('alanine-dipeptide-cartesian', 22 atoms)"
    with pytest.raises(dataclasses.FrozenInstanceError):
        dipeptide.name = "another"  # type: ignore[misc]


def test_the_reference_structure_is_a_minimum(
    dipeptide: Molecule, energy: Callable[[Any, Any], float]
) -> None:
    assert 0 < dipeptide.residual_force < 1
    lowest = energy(dipeptide.system, dipeptide.positions)
    assert lowest == pytest.approx(dipeptide.minimum_energy, abs=1e-9)
    generator = torch.Generator().manual_seed(0)
    for _ in range(5):
        step = 0.001 * torch.randn(22, 3, generator=generator, dtype=torch.float64)
        assert energy(dipeptide.system, dipeptide.positions + step) > lowest


def test_minimisation_goes_on_where_a_line_search_fails(dipeptide: Molecule) -> None:
    generator = torch.Generator().manual_seed(1)
    shaken = dipeptide.positions + 0.03 * torch.randn(22, 3, generator=generator, dtype=torch.float64)
    again = Molecule.from_openmm(dipeptide.topology, dipeptide.system, shaken)
    assert again.residual_force < 1
    assert torch.equal(again.start_positions, shaken)
    same = Molecule.from_openmm(dipeptide.topology, dipeptide.system, shaken)
    assert torch.equal(same.positions, again.positions)


def test_constraints_hold_in_the_reference_structure() -> None:
    molecule = Molecule.from_sequence("ACE-ALA-NME", constraints="HBonds")
    pairs, lengths = molecule.constraints.pairs, molecule.constraints.lengths
    assert len(molecule.constraints) == 12
    found = (molecule.positions[pairs[:, 0]] - molecule.positions[pairs[:, 1]]).norm(dim=-1)
    assert (found - lengths).abs().max() < 1e-7
    # Forces along the constrained bonds are large and not counted: the structure is a minimum all the same.
    assert molecule.residual_force < 1


def test_hash_is_the_same_in_another_process(dipeptide: Molecule) -> None:
    code = "from boltzkit.molecule import find_molecule; print(find_molecule('alanine-dipeptide-cartesian').hash)"
    for seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        done = subprocess.run(
            [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
        )
        assert done.stdout.strip() == dipeptide.hash


def test_hash_survives_a_file_and_tells_molecules_apart(dipeptide: Molecule, dipeptide_pdb: Path) -> None:
    assert Molecule.from_pdb(dipeptide_pdb).hash == dipeptide.hash
    others = (
        Molecule.from_pdb(dipeptide_pdb, constraints="HBonds"),
        Molecule.from_pdb(dipeptide_pdb, ("amber99sbildn.xml",)),
        find_molecule("alanine_dipeptide"),
        Molecule.from_sequence("ACE-GLY-NME"),
    )
    assert len({dipeptide.hash, *(other.hash for other in others)}) == 5


def test_hash_sees_the_smallest_change_of_a_parameter(dipeptide: Molecule) -> None:
    system = openmm.XmlSerializer.clone(dipeptide.system)
    bonds = next(force for force in system.getForces() if isinstance(force, openmm.HarmonicBondForce))
    a, b, length, k = bonds.getBondParameters(0)
    bonds.setBondParameters(0, a, b, length * (1 + 1e-12), k)
    changed = Molecule.from_openmm(dipeptide.topology, system, dipeptide.positions)
    assert changed.hash != dipeptide.hash
    system.setDefaultPeriodicBoxVectors((9, 0, 0), (0, 9, 0), (0, 0, 9))
    boxed = Molecule.from_openmm(dipeptide.topology, system, dipeptide.positions)
    assert boxed.hash == changed.hash


def test_the_system_given_can_be_changed_afterwards(dipeptide: Molecule) -> None:
    system = openmm.XmlSerializer.clone(dipeptide.system)
    molecule = Molecule.from_openmm(dipeptide.topology, system, dipeptide.positions)
    system.addForce(openmm.CustomExternalForce("x"))
    assert molecule.system.getNumForces() == system.getNumForces() - 1


def test_positions_come_with_or_without_units(dipeptide: Molecule) -> None:
    with_unit = dipeptide.positions.numpy() * 10 * unit.angstrom
    molecule = Molecule.from_openmm(dipeptide.topology, dipeptide.system, with_unit)
    assert torch.allclose(molecule.start_positions, dipeptide.positions, atol=1e-12)


@pytest.mark.parametrize(
    ("spoil", "sentence"),
    [
        (lambda x: x * 10, "Å given as nm: divide by 10"),
        (lambda x: x / 10, "nm given as Å: multiply by 10"),
        (lambda x: x[:-1], "22 atoms need coordinates of shape (22, 3), not (21, 3)"),
        (lambda x: x.index_fill(0, torch.tensor([4]), float("nan")), "atom 5 has a coordinate that is not"),
        (lambda x: x.index_copy(0, torch.tensor([4]), x[9:10]), "atoms on top of each other"),
    ],
    ids=["angstrom", "nm", "count", "nan", "overlap"],
)
def test_impossible_coordinates_are_named(
    dipeptide: Molecule, spoil: Callable[[torch.Tensor], torch.Tensor], sentence: str
) -> None:
    with pytest.raises(UserError) as caught:
        Molecule.from_openmm(dipeptide.topology, dipeptide.system, spoil(dipeptide.positions), "mine")
    assert str(caught.value).startswith("mine: ")
    assert sentence in str(caught.value)


def test_units_are_recognised_in_batches_and_doubted_only_when_wrong(dipeptide: Molecule) -> None:
    batch = dipeptide.positions.expand(7, 22, 3)
    assert "divide by 10" in str(unit_mistake(dipeptide.bonds, 10 * batch))
    for stretch in (0.5, 1.0, 2.0):
        assert unit_mistake(dipeptide.bonds, stretch * batch) is None


def test_systems_that_cannot_be_treated_are_named(dipeptide: Molecule) -> None:
    def refusal(change: Callable[[Any], Any]) -> str:
        system = openmm.XmlSerializer.clone(dipeptide.system)
        change(system)
        with pytest.raises(UserError) as caught:
            Molecule.from_openmm(dipeptide.topology, system, dipeptide.positions, "mine")
        return str(caught.value)

    def periodic(system: Any) -> None:
        next(f for f in system.getForces() if isinstance(f, openmm.NonbondedForce)).setNonbondedMethod(
            openmm.NonbondedForce.PME
        )

    def bond_outside(system: Any) -> None:
        bonds = openmm.HarmonicBondForce()
        bonds.addBond(0, 99, 0.1, 1000.0)
        system.addForce(bonds)

    assert "NonbondedForce is periodic" in refusal(periodic)
    assert "MonteCarloBarostat is periodic" in refusal(
        lambda system: system.addForce(openmm.MonteCarloBarostat(1, 300))
    )
    assert "Drude particles" in refusal(lambda system: system.addForce(openmm.DrudeForce()))
    assert "atom 4 has no mass" in refusal(lambda system: system.setParticleMass(3, 0))
    assert "22 atoms but the System has 23" in refusal(lambda system: system.addParticle(1.0))
    assert "OpenMM cannot use this System" in refusal(bond_outside)

    def virtual(system: Any) -> None:
        system.setParticleMass(3, 0)
        system.setVirtualSite(3, openmm.TwoParticleAverageSite(0, 1, 0.5, 0.5))

    assert "atom 4 is a virtual site" in refusal(virtual)


def test_unknown_constraints_are_refused_with_a_suggestion() -> None:
    with pytest.raises(UserError, match="no constraints 'HBond'"):
        Molecule.from_sequence("ACE-ALA-NME", constraints="HBond")
