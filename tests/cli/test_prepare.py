"""boltzkit prepare: files become a folder that stands for the molecule everywhere."""

import pytest
from openmm import app, unit

from boltzkit.molecule import find_molecule, load_molecule, read_molecule


@pytest.fixture
def bare(tmp_path):
    """Alanine dipeptide as it comes from a crystal: without hydrogens."""
    molecule = find_molecule("alanine-dipeptide")
    modeller = app.Modeller(molecule.topology, unit.Quantity(molecule.positions.numpy(), unit.nanometer))
    modeller.delete([atom for atom in modeller.topology.atoms() if atom.element.symbol == "H"])
    with open(tmp_path / "bare.pdb", "w") as file:
        app.PDBFile.writeFile(modeller.topology, modeller.positions, file)
    return tmp_path / "bare.pdb"


def test_hydrogens_are_added_and_the_folder_is_a_molecule(cli, bare, tmp_path):
    refused = cli("prepare", str(bare), "--out", str(tmp_path / "a")).refused()
    assert "boltzkit prepare FILE --add-hydrogens" in refused
    assert not (tmp_path / "a").exists()
    ending = cli("prepare", str(bare), "--add-hydrogens", "--out", str(tmp_path / "mine"))
    assert ending.code == 0, ending.err
    assert "12 hydrogens were added." in ending.out
    assert f"Next: boltzkit run {tmp_path / 'mine'}" in ending.out
    found = read_molecule(str(tmp_path / "mine"))
    assert (found.name, found.n_atoms) == ("mine", 22)


def test_a_system_of_openmm_with_constraints(cli, tmp_path):
    ending = cli("prepare", "ACE-ALA-NME", "--constraints", "HBonds", "--out", str(tmp_path / "a"))
    assert ending.code == 0, ending.err
    files = (str(tmp_path / "a" / "system.xml"), "--coordinates", str(tmp_path / "a" / "topology.pdb"))
    assert cli("prepare", *files, "--out", str(tmp_path / "b")).code == 0
    first, second = load_molecule(tmp_path / "a"), load_molecule(tmp_path / "b")
    assert len(first.constraints) == len(second.constraints) == 12
    assert first.hash == second.hash
    refused = cli("prepare", *files, "--constraints", "HBonds", "--out", str(tmp_path / "c")).refused()
    assert refused.endswith("has constraints of its own: leave --constraints out.")
