"""A molecule kept as a folder of its own, and molecules as people type them."""

import importlib.util
from pathlib import Path

import pytest
import torch
from openmm import app

from boltzkit.errors import UserError
from boltzkit.molecule import Backbone, find_molecule, load_molecule, pdb_text, read_molecule, save_molecule


@pytest.mark.parametrize("name", ["alanine-dipeptide", "alanine-dipeptide-cartesian", "ACE-TRP-NME"])
def test_a_saved_molecule_is_the_same(name, tmp_path):
    molecule = read_molecule(name)
    save_molecule(molecule, tmp_path / "kept")
    again = load_molecule(tmp_path / "kept")
    assert again.hash == molecule.hash
    assert again.name == "kept"
    assert load_molecule(tmp_path / "kept", "mine").name == "mine"
    assert read_molecule(str(tmp_path / "kept")).hash == molecule.hash
    torch.testing.assert_close(again.positions, molecule.positions, atol=2e-4, rtol=0)
    ours, theirs = Backbone.of(again.topology), Backbone.of(molecule.topology)
    assert (ours.names, ours.omega_names) == (theirs.names, theirs.omega_names)
    assert torch.equal(ours.omega, theirs.omega)
    # Control: another molecule is another one.
    assert again.hash != find_molecule("alanine-tetrapeptide").hash


def test_a_structure_as_text_is_a_pdb_file(tmp_path):
    molecule = find_molecule("alanine-dipeptide")
    moved = molecule.positions + 0.1
    (tmp_path / "moved.pdb").write_text(pdb_text(molecule, moved))
    found = app.PDBFile(str(tmp_path / "moved.pdb")).getPositions(asNumpy=True)._value
    torch.testing.assert_close(torch.as_tensor(found), moved, atol=1e-4, rtol=0)
    assert "REMARK" not in pdb_text(
        molecule, moved
    )  # no date: the same structure is the same file on any day


def test_a_folder_without_a_molecule_is_refused(tmp_path):
    with pytest.raises(UserError, match=r"it has no system\.xml"):
        read_molecule(str(tmp_path))


def test_a_prmtop_finds_its_coordinates(tmp_path):
    # Importing openmmtools warns and prints; its files are enough.
    package = Path(importlib.util.find_spec("openmmtools").origin).parent
    for ending in ("prmtop", "crd"):
        source = package / "data" / "alanine-dipeptide-gbsa" / f"alanine-dipeptide.{ending}"
        (tmp_path / f"a.{ending}").write_bytes(source.read_bytes())
    molecule = read_molecule(str(tmp_path / "a.prmtop"), "OBC1")
    assert molecule.n_atoms == 22
    # Control: without coordinates beside it, a sentence says what is missing.
    (tmp_path / "a.crd").unlink()
    with pytest.raises(UserError, match=r"put a\.inpcrd or a\.rst7 or a\.crd there"):
        read_molecule(str(tmp_path / "a.prmtop"))
