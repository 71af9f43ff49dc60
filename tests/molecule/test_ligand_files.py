"""Small molecules: RDKit's own MMFF94 is the judge of the System, and every kind of bad input has its sentence."""

from pathlib import Path
from typing import Any

import numpy as np
import openmm
import pytest
import torch
from rdkit import Chem, rdBase
from rdkit.Chem import rdDistGeom, rdForceFieldHelpers

from boltzkit.cli import main
from boltzkit.energy.forcefield.parity import check_parity
from boltzkit.errors import UserError
from boltzkit.molecule import Molecule, load_molecule, read_molecule, save_molecule
from boltzkit.molecule.mmff import mmff_system

# Chains, rings of three to six, lines, charges, flat and not so flat nitrogens, halogens, sulphur and phosphorus.
SMILES = (
    *("CC", "CCO", "CC#N", "CC#CC", "C=C=C", "C1CC1C", "C1=CC1", "C1CCC1", "O=C1CCCN1", "CC(=O)N", "N=C=O"),
    *(
        "c1ccc2[nH]ccc2c1",
        "n1ccsc1",
        "CS(=O)(=O)NC",
        "C[NH3+]",
        "CC(=O)[O-]",
        "C[N+](C)(C)CCO",
        "CN=[N+]=[N-]",
    ),
    *("O=S(=O)(N)c1ccc(Cl)cc1F", "OP(=O)(O)OC", "CBr", "[C-]#[N+]C", "CC(C)C[C@H](N)C(=O)O"),
    *("CC(=O)Oc1ccccc1C(=O)O", "CC(C)Cc1ccc(cc1)[C@@H](C)C(=O)O"),
)
ETHANOL = """ethanol
     drawn by hand

  3  2  0  0  0  0  0  0  0  0999 V2000
    0.0000    0.0000    0.0000 C   0  0
    1.3000    0.7500    0.0000 C   0  0
    2.6000    0.0000    0.0000 O   0  0
  1  2  1  0
  2  3  1  0
M  END
"""


def embedded(smiles: str) -> Any:
    molecule = Chem.AddHs(Chem.MolFromSmiles(smiles))
    assert rdDistGeom.EmbedMolecule(molecule, randomSeed=1) == 0
    return molecule


def energies(smiles: str, *, spread: float = 0.1, **changed: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return the energies of shaken structures in kJ/mol: RDKit's, and OpenMM's of our System."""
    molecule, noise = embedded(smiles), np.random.default_rng(0)
    properties = rdForceFieldHelpers.MMFFGetMoleculeProperties(molecule, **changed)
    system = mmff_system(molecule, rdForceFieldHelpers.MMFFGetMoleculeProperties(molecule))
    platform = openmm.Platform.getPlatformByName("Reference")
    context = openmm.Context(system, openmm.VerletIntegrator(0.001), platform)
    start, conformer = molecule.GetConformer().GetPositions(), molecule.GetConformer()
    pairs = []
    for _ in range(4):
        shaken = start + spread * noise.normal(size=start.shape)
        for atom, position in enumerate(shaken):
            conformer.SetAtomPosition(atom, position.tolist())
        theirs = rdForceFieldHelpers.MMFFGetMoleculeForceField(molecule, properties).CalcEnergy() * 4.184
        context.setPositions(shaken / 10)
        ours = context.getState(getEnergy=True).getPotentialEnergy()._value
        pairs.append((theirs, ours))
    theirs, ours = np.array(pairs).T
    return theirs, ours


@pytest.mark.parametrize("smiles", SMILES)
def test_the_system_is_rdkits_force_field(smiles: str) -> None:
    theirs, ours = energies(smiles)
    np.testing.assert_allclose(ours, theirs, rtol=1e-8, atol=1e-7)


def test_another_force_field_is_not() -> None:
    theirs, ours = energies("CC(=O)N", mmffVariant="MMFF94s")  # flatter amides
    assert np.abs(ours - theirs).max() > 0.1


def test_the_batched_energies_are_openmms() -> None:
    molecule = Molecule.from_smiles("CC(=O)Nc1ccc(O)cc1")
    report = check_parity(molecule.system, molecule.positions, name="paracetamol")
    assert report.ok
    assert report.energy_error <= 1e-5 or report.relative_energy_error <= 1e-6


def test_smiles_give_the_same_molecule_again() -> None:
    one, other, another = (Molecule.from_smiles("OCC(C)O", seed=seed) for seed in (3, 3, 4))
    assert one.name == "C3H8O2"
    assert one.hash == other.hash == another.hash
    assert torch.equal(one.start_positions, other.start_positions)
    assert not torch.equal(one.start_positions, another.start_positions)
    assert read_molecule("smiles:OCC(C)O").hash == one.hash


def test_an_open_stereo_centre_is_said(tmp_path: Path) -> None:
    assert any("No hand is given for C2:" in remark for remark in Molecule.from_smiles("OCC(C)N").remarks)
    assert any("Both sides of C2=C3 belong" in remark for remark in Molecule.from_smiles("C/C=C/C").remarks)
    assert len(Molecule.from_smiles("OC[C@H](C)N").remarks) == 1
    path = tmp_path / "given.sdf"  # a structure in space leaves nothing open
    path.write_text(Chem.MolToMolBlock(embedded("OC[C@H](C)N")))
    assert len(Molecule.from_ligand(path).remarks) == 1


def test_a_file_in_space_is_taken_as_it_is(tmp_path: Path) -> None:
    molecule = embedded("CC(=O)[O-]")
    path = tmp_path / "acetate.sdf"
    path.write_bytes(b"caf\xe9" + (2 * (Chem.MolToMolBlock(molecule) + "$$$$\n")).encode())
    read = read_molecule(str(path))
    given = torch.from_numpy(molecule.GetConformer().GetPositions() / 10)
    assert torch.allclose(read.start_positions, given, atol=1e-5)
    assert read.name == "acetate"
    assert "The first of 2 molecules is used." in read.remarks
    assert "The force field is MMFF94, in vacuum; the net charge is -1." in read.remarks
    assert [atom.name for atom in read.topology.atoms()] == ["C1", "C2", "O1", "O2", "H1", "H2", "H3"]


def test_mol2_gives_what_sdf_gives(tmp_path: Path) -> None:
    # Methanol by hand: RDKit writes no MOL2.
    path = tmp_path / "methanol.mol2"
    path.write_text(
        "@<TRIPOS>MOLECULE\nmethanol\n6 5 1 0 0\nSMALL\nNO_CHARGES\n\n@<TRIPOS>ATOM\n"
        "1 C  -0.374  0.000  0.006 C.3 1 M 0\n2 O   0.940  0.000 -0.580 O.3 1 M 0\n"
        "3 H1 -0.930 -0.890 -0.290 H 1 M 0\n4 H2 -0.930  0.890 -0.290 H 1 M 0\n"
        "5 H3 -0.290  0.000  1.095 H 1 M 0\n6 HO  1.580  0.000  0.140 H 1 M 0\n"
        "@<TRIPOS>BOND\n1 1 2 1\n2 1 3 1\n3 1 4 1\n4 1 5 1\n5 2 6 1\n"
    )
    read = read_molecule(str(path))
    assert read.hash == Molecule.from_smiles("CO").hash
    assert float(read.start_positions[1, 0]) == pytest.approx(0.0940)
    path.write_text(
        "@<TRIPOS>MOLECULE\nmethanol\n2 1 1 0 0\nSMALL\nNO_CHARGES\n\n@<TRIPOS>ATOM\n"
        "1 C  -0.374  0.000  0.006 C.3 1 M 0\n2 O   0.940  0.010 -0.580 O.3 1 M 0\n@<TRIPOS>BOND\n1 1 2 1\n"
    )
    with pytest.raises(UserError, match="C1 has an unpaired electron, and MMFF94 has no radicals"):
        read_molecule(str(path))


def test_a_flat_molecule_in_space_is_no_drawing(tmp_path: Path) -> None:
    benzene = embedded("c1ccccc1")
    for atom, (x, y, _) in enumerate(benzene.GetConformer().GetPositions().tolist()):
        benzene.GetConformer().SetAtomPosition(atom, (x, y, 0.0))
    path = tmp_path / "benzene.sdf"
    path.write_text(Chem.MolToMolBlock(benzene))
    read = read_molecule(str(path))
    assert read.remarks == ("The force field is MMFF94, in vacuum.",)
    assert float(read.start_positions[:, 2].abs().max()) == 0


def test_a_flat_drawing_gets_hydrogens_and_a_structure_on_request(tmp_path: Path) -> None:
    path = tmp_path / "ethanol.sdf"
    path.write_text(ETHANOL)
    with pytest.raises(UserError, match="lacks 6 hydrogens: add them, or let --add-hydrogens"):
        read_molecule(str(path))
    read = read_molecule(str(path), add_hydrogens=True)
    assert read.n_atoms == 9
    assert "6 hydrogens were added." in read.remarks
    assert any("flat drawing" in remark for remark in read.remarks)
    assert float(read.start_positions.std(0).min()) > 0.02


def test_it_comes_back_from_a_folder(tmp_path: Path) -> None:
    molecule = Molecule.from_smiles("CC(=O)N")
    save_molecule(molecule, tmp_path / "saved")
    assert load_molecule(tmp_path / "saved").hash == molecule.hash


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("smiles:C(C", "is no SMILES of a molecule"),
        ("smiles:", "is no SMILES of a molecule"),
        ("smiles:CC.CC", "is not one connected molecule"),
        ("smiles:C[CH2]", "C2 has an unpaired electron"),
        ("smiles:CB(O)O", "MMFF94 has no parameters for 'CB"),
        ("nowhere.sdf", "There is no file nowhere.sdf"),
    ],
)
def test_what_cannot_be_read_is_refused(text: str, sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        read_molecule(text)


@pytest.mark.parametrize(
    "content", ["", "nonsense", ETHANOL[:120], "\n\n\n  0  0  0  0  0  0  0  0  0  0999 V2000\nM  END\n"]
)
@pytest.mark.parametrize("ending", [".sdf", ".mol", ".mol2"])
def test_a_damaged_file_is_refused(tmp_path: Path, ending: str, content: str) -> None:
    path = tmp_path / f"damaged{ending}"
    path.write_text(content)
    with pytest.raises(UserError, match="could not be read as a"):
        read_molecule(str(path), add_hydrogens=True)


@pytest.mark.parametrize("options", [{"forcefield": "OBC2"}, {"constraints": "HBonds"}])
def test_it_has_one_force_field(options: dict[str, str]) -> None:
    with pytest.raises(UserError, match="takes MMFF94 without constraints"):
        read_molecule("smiles:CCO", **options)


def test_smiles_have_their_hydrogens() -> None:
    with pytest.raises(UserError, match="not to smiles:CCO: leave --add-hydrogens out"):
        read_molecule("smiles:CCO", add_hydrogens=True)


def test_without_rdkit_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "rdkit", None)
    with pytest.raises(UserError, match=r"pip install 'boltzkit\[ligands\]'"):
        read_molecule("smiles:CCO")


def test_rdkit_says_nothing_of_its_own(capfd: pytest.CaptureFixture[str]) -> None:
    rdBase.LogToCppStreams()
    with pytest.raises(UserError):
        read_molecule("smiles:C(C")
    assert capfd.readouterr().err == ""


def test_prepare_takes_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["prepare", "smiles:CCO", "--out", str(tmp_path / "ethanol")]) == 0
    assert "MMFF94" in capsys.readouterr().out
    assert load_molecule(tmp_path / "ethanol").n_atoms == 9
