"""Structure files as people have them: read, or refused in one sentence that says what to do."""

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import openmm
import pytest
import torch
from openmm import app, unit

from boltzkit.errors import UserError
from boltzkit.molecule import Molecule
from boltzkit.molecule.parts import in_nm

Write = Callable[..., Path]


def refusal(path: Path, **options: Any) -> str:
    with pytest.raises(UserError) as caught:
        Molecule.from_pdb(path, **options)
    return str(caught.value)


def edited(path: Path, change: Callable[[list[str]], list[str]]) -> Path:
    path.write_text("\n".join(change(path.read_text().splitlines())) + "\n")
    return path


def without(path: Path, drop: Callable[[str], bool]) -> Path:
    return edited(path, lambda lines: [line for line in lines if not drop(line)])


def stripped(molecule: Molecule, keep: Callable[[Any], bool]) -> tuple[Any, torch.Tensor]:
    """Return a topology and positions without the atoms that are not kept."""
    modeller = app.Modeller(molecule.topology, molecule.positions.numpy() * unit.nanometer)
    modeller.delete([atom for atom in molecule.topology.atoms() if not keep(atom)])
    return modeller.topology, in_nm(modeller.positions)


@pytest.mark.parametrize("name", ["x.pdb", "x.cif"])
def test_pdb_and_mmcif_are_read(write: Write, dipeptide: Molecule, name: str) -> None:
    molecule = Molecule.from_pdb(write(name, dipeptide.topology, dipeptide.start_positions))
    assert molecule.name == "x"
    assert molecule.hash == dipeptide.hash
    # Three digits after the point, in Å, is what a PDB file holds.
    assert torch.allclose(molecule.start_positions, dipeptide.start_positions, atol=1e-4)
    assert molecule.minimum_energy == pytest.approx(dipeptide.minimum_energy, abs=1e-2)
    assert molecule.remarks == ()


def test_a_box_without_solvent_is_ignored_and_said(dipeptide_pdb: Path, dipeptide: Molecule) -> None:
    box = "CRYST1   30.000   30.000   30.000  90.00  90.00  90.00 P 1           1"
    molecule = Molecule.from_pdb(edited(dipeptide_pdb, lambda lines: [box, *lines]))
    assert molecule.hash == dipeptide.hash
    assert molecule.topology.getPeriodicBoxVectors() is None
    assert "periodic box of the file is ignored" in molecule.remarks[0]


def test_the_first_of_several_models_is_used(dipeptide_pdb: Path) -> None:
    def twice(lines: list[str]) -> list[str]:
        atoms = [line for line in lines if line.startswith(("ATOM", "HETATM", "TER"))]
        rest = [line for line in lines if line.startswith("CONECT")]
        return ["MODEL        1", *atoms, "ENDMDL", "MODEL        2", *atoms, "ENDMDL", *rest, "END"]

    assert Molecule.from_pdb(edited(dipeptide_pdb, twice)).remarks == ("The first of 2 models is used.",)


def test_missing_hydrogens_are_named_and_added(write: Write, dipeptide: Molecule) -> None:
    path = write("bare.pdb", *stripped(dipeptide, lambda atom: atom.element.symbol != "H"))
    sentence = refusal(path)
    assert sentence.startswith(f"{path}: ACE 1 of chain A (residue 1 of 3) lacks 3 hydrogens")
    assert "add_hydrogens=True" in sentence
    state = random.getstate()
    first, again = (Molecule.from_pdb(path, add_hydrogens=True) for _ in range(2))
    assert first.n_atoms == 22
    assert "12 hydrogens were added." in first.remarks
    assert torch.equal(first.positions, again.positions)
    assert random.getstate() == state


def test_unknown_residues_are_named_with_the_nearest(write: Write, dipeptide: Molecule) -> None:
    path = write("cut.pdb", *stripped(dipeptide, lambda atom: atom.name not in {"CB", "HB1", "HB2", "HB3"}))
    known = "ALA 2 of chain A (residue 2 of 3) has no template in the force field; the nearest are ALA, "
    assert known in refusal(path)
    assert "against ALA it lacks 1 C, 3 H: correct the residue" in refusal(path)
    path.write_text(path.read_text().replace("ALA", "XYZ"))
    assert "XYZ 2 of chain A (residue 2 of 3)" in refusal(path)
    assert "GLY" in refusal(path)
    assert "XYZ 2 of chain A" in refusal(path, add_hydrogens=True)


def test_missing_caps_are_named(write: Write, dipeptide: Molecule) -> None:
    path = write("uncapped.pdb", *stripped(dipeptide, lambda atom: atom.residue.name != "NME"))
    sentence = refusal(path)
    assert "ALA 2 of chain A (residue 2 of 2) has the atoms of the template ALA but not its bonds" in sentence
    assert "cap or complete the ends" in sentence


@pytest.mark.parametrize(
    "line",
    [
        "HETATM   90  O   HOH B  90      10.000  10.000  10.000  1.00  0.00           O",
        "HETATM   90 CL    CL B  90      10.000  10.000  10.000  1.00  0.00          Cl",
        "HETATM   90 NA    NA B  90      10.000  10.000  10.000  1.00  0.00          Na",
    ],
    ids=["water", "chloride", "sodium"],
)
def test_explicit_solvent_is_refused(dipeptide_pdb: Path, line: str) -> None:
    def added(lines: list[str]) -> list[str]:
        end = next(index for index, text in enumerate(lines) if text.startswith("TER"))
        return [*lines[: end + 1], line, *lines[end + 1 :]]

    sentence = refusal(edited(dipeptide_pdb, added))
    assert "holds explicit solvent or ions" in sentence
    assert "90 of chain B (residue 4 of 4)" in sentence
    assert "strip them" in sentence


def test_two_molecules_in_one_file_are_refused(write: Write, dipeptide: Molecule) -> None:
    modeller = app.Modeller(dipeptide.topology, dipeptide.positions.numpy() * unit.nanometer)
    modeller.add(dipeptide.topology, (dipeptide.positions.numpy() + 2) * unit.nanometer)
    positions = in_nm(modeller.positions)
    sentence = refusal(write("two.pdb", modeller.topology, positions))
    assert "is not one connected molecule: no bonds lead from atom 1 to atom 23" in sentence


def test_coordinates_in_nm_are_recognised(write: Write, dipeptide: Molecule) -> None:
    sentence = refusal(write("nm.pdb", dipeptide.topology, dipeptide.positions / 10))
    assert "nm given as Å" in sentence


def test_missing_and_damaged_files_are_named(tmp_path: Path, dipeptide_pdb: Path) -> None:
    assert refusal(tmp_path / "no.pdb") == f"There is no file {tmp_path / 'no.pdb'}."
    empty = tmp_path / "empty.pdb"
    empty.write_text("END\n")
    assert "empty.pdb is no PDB file with atoms" in refusal(empty)
    damaged = without(dipeptide_pdb, lambda line: False)
    damaged.write_text(
        damaged.read_text().replace("HETATM    1", "HETATM    x", 1)[:200] + "\nATOM  nonsense\n"
    )
    assert "could not be read as PDB" in refusal(damaged)
    (tmp_path / "text.cif").write_text("this is no mmCIF")
    assert "text.cif could not be read as mmCIF" in refusal(tmp_path / "text.cif")


def test_force_fields_that_do_not_exist_are_named(dipeptide_pdb: Path, tmp_path: Path) -> None:
    sentence = refusal(dipeptide_pdb, forcefield=("amber99sbilnd.xml",))
    assert sentence == "There is no force-field file amber99sbilnd.xml. Did you mean 'amber99sbildn.xml'?"
    assert "at least one file" in refusal(dipeptide_pdb, forcefield=())
    empty = tmp_path / "empty.xml"
    empty.write_text("<ForceField/>")
    assert "hold none at all" in refusal(dipeptide_pdb, forcefield=(empty,))


def test_a_serialised_system_is_read(tmp_path: Path, dipeptide_pdb: Path, dipeptide: Molecule) -> None:
    path = tmp_path / "system.xml"
    path.write_text(openmm.XmlSerializer.serialize(dipeptide.system))
    molecule = Molecule.from_system_xml(path, dipeptide_pdb)
    assert molecule.hash == dipeptide.hash
    assert molecule.minimum_energy == pytest.approx(dipeptide.minimum_energy, abs=1e-2)
    # Bonds of residues that no library knows have to be in the file.
    unknown = without(dipeptide_pdb, lambda line: line.startswith("CONECT"))
    unknown.write_text(unknown.read_text().replace("ALA", "XYZ"))
    with pytest.raises(UserError, match="no bonds lead from atom 1 to atom"):
        Molecule.from_system_xml(path, unknown)
