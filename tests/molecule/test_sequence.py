"""Peptides from sequences: every amino acid, the right hands, no clashes."""

import math

import pytest
import torch
from openmm import app

from boltzkit.errors import UserError
from boltzkit.molecule import Molecule
from boltzkit.molecule.geometry import distances
from boltzkit.molecule.stereo import handed_centres, handedness, numbered_hydrogens, stereocentres
from boltzkit.molecule.torsions import backbone_torsions, dihedral

AMINO_ACIDS = ["ALA", "ARG", "ASN", "ASP", "CYS", "GLN", "GLU", "GLY", "HIS", "ILE"]
AMINO_ACIDS += ["LEU", "LYS", "MET", "PHE", "PRO", "SER", "THR", "TRP", "TYR", "VAL"]
VARIANTS = ["HID", "HIP", "ASH", "GLH", "LYN"]
STEREOCENTRES = {"GLY": 0, "ILE": 2, "THR": 2}


def clashes(molecule: Molecule) -> int:
    """Count pairs more than two bonds apart and closer than 0.15 nm."""
    steps = torch.eye(molecule.n_atoms)
    for a, b in molecule.bonds.tolist():
        steps[a, b] = steps[b, a] = 1
    far = ~(steps @ steps > 0)
    return int((distances(molecule.positions)[far] < 0.15).sum())


@pytest.mark.parametrize("residue", AMINO_ACIDS + VARIANTS)
def test_every_amino_acid_is_built(residue: str) -> None:
    molecule = Molecule.from_sequence(f"ACE-{residue}-NME")
    centres = handed_centres(molecule.topology, residue)
    assert len(stereocentres(molecule.topology)) == STEREOCENTRES.get(residue, 1)
    assert (handedness(molecule.positions, centres) > 0.5).all()
    # The check would see a mirror image.
    assert (handedness(-molecule.positions, centres) < -0.5).all()
    assert clashes(molecule) == 0
    assert math.isfinite(molecule.minimum_energy)
    assert molecule.residual_force < 1
    torsions = backbone_torsions(molecule.topology)
    assert len(torsions.trans) == 2
    assert (dihedral(molecule.positions, torsions.trans).abs() > math.radians(160)).all()
    phi = math.degrees(dihedral(molecule.positions, torsions.rows)[1])
    assert residue == "GLY" or -170 < phi < -60
    bonds = molecule.bonds
    lengths = (molecule.positions[bonds[:, 0]] - molecule.positions[bonds[:, 1]]).norm(dim=-1)
    assert lengths.min() > 0.09
    assert lengths.max() < 0.19


def test_clashes_are_counted_where_there_are_some(dipeptide: Molecule) -> None:
    squeezed = torch.diag(torch.tensor([1.0, 1.0, 0.0], dtype=torch.float64))
    flat = Molecule(
        "flat",
        dipeptide.topology,
        dipeptide.system,
        dipeptide.positions,
        dipeptide.positions @ squeezed,
        0.0,
        0.0,
    )
    assert clashes(dipeptide) == 0
    assert clashes(flat) > 0


def test_the_same_seed_gives_the_same_structure() -> None:
    first, again, other = (Molecule.from_sequence("ACE-SER-NME", seed=seed) for seed in (3, 3, 4))
    assert torch.equal(first.start_positions, again.start_positions)
    assert torch.equal(first.positions, again.positions)
    assert not torch.equal(first.start_positions, other.start_positions)


def test_uncapped_ends_take_their_charged_forms() -> None:
    molecule = Molecule.from_sequence("gly-his-ala")
    assert [residue.name for residue in molecule.topology.residues()] == ["GLY", "HIS", "ALA"]
    assert molecule.remarks == ("HIS is built as HIE.",)
    names = [atom.name for atom in molecule.topology.atoms()]
    assert {"H1", "H2", "H3", "OXT", "HE2"} <= set(names)
    assert "HD1" not in names


def test_other_force_fields_work_too() -> None:
    molecule = Molecule.from_sequence("ACE-ALA-NME", ("amber14-all.xml", "implicit/gbn2.xml"), "AllBonds")
    assert len(molecule.constraints) == 21
    cmap = Molecule.from_sequence("ACE-ALA-NME", "amber19/protein.ff19SB.xml")
    assert any(type(force).__name__ == "CMAPTorsionForce" for force in cmap.system.getForces())


@pytest.mark.parametrize(
    ("sequence", "sentence"),
    [
        ("ACE-ALAX-NME", "the force field has no residue 'ALAX'. Did you mean 'ALA'?"),
        ("", "residue names joined by dashes, like ACE-ALA-NME, not ''"),
        ("ACE--NME", "residue names joined by dashes"),
        ("ACE", "no form of ACE with the 0 bonds to other residues that place 1 of 1"),
        ("ACE-CYX-NME", "leave disulphides (CYX) to a structure from a file"),
        ("NME-ALA-ACE", "NME cannot stand at place 1"),
        ("DA5-DA3", "only peptides, joined from C to N"),
    ],
)
def test_impossible_sequences_are_named(sequence: str, sentence: str) -> None:
    with pytest.raises(UserError) as caught:
        Molecule.from_sequence(sequence)
    assert sentence in str(caught.value)


def test_handedness_that_is_not_known_is_not_guessed() -> None:
    with pytest.raises(UserError, match=r"which way round CA of ALAD 1 of chain A .* is not told"):
        Molecule.from_sequence("ALAD", "charmm36.xml")


def test_turning_reaches_the_dihedrals_asked_for(dipeptide: Molecule) -> None:
    torsions = backbone_torsions(dipeptide.topology)
    turned = torsions.turned(dipeptide.start_positions)
    assert float(torsions.off(turned)) < 1e-20
    bonds = dipeptide.bonds
    before, after = (
        (x[bonds[:, 0]] - x[bonds[:, 1]]).norm(dim=-1) for x in (dipeptide.start_positions, turned)
    )
    assert torch.allclose(before, after, atol=1e-12)


def test_proline_keeps_its_ring() -> None:
    molecule = Molecule.from_sequence("ACE-PRO-NME")
    torsions = backbone_torsions(molecule.topology)
    assert [len(atoms) > 0 for atoms in torsions.beyond] == [True, False, True, True]
    phi = math.degrees(dihedral(molecule.positions, torsions.rows)[1])
    assert -90 < phi < -50


def test_dihedrals_have_the_sign_of_iupac() -> None:
    corner = torch.tensor([[1.0, 0, 0], [0, 0, 0], [0, 0, 1], [0.0, 1, 1]], dtype=torch.float64)
    # Looking along the middle bond, from below, the far arm is a quarter turn clockwise: positive.
    row = torch.tensor([[0, 1, 2, 3]])
    assert float(dihedral(corner, row)) == pytest.approx(math.pi / 2)
    assert float(dihedral(corner * torch.tensor([1.0, -1, 1]), row)) == pytest.approx(-math.pi / 2)


def test_the_table_of_hands_agrees_with_a_crystal_structure() -> None:
    """T4 lysozyme: all kinds of residues but cysteine, with hydrogens placed by Amber's tools."""
    testsystems = pytest.importorskip("openmmtools.testsystems")
    path = testsystems.get_data_filename("data/T4-lysozyme-L99A-implicit/receptor.pdb")
    file = app.PDBFile(path)
    positions = torch.tensor(file.getPositions(asNumpy=True)._value, dtype=torch.float64)
    centres = handed_centres(file.topology, "lysozyme")
    assert len(centres) > 190
    assert (handedness(positions, centres) > 0.5).all()
    moved = (numbered_hydrogens(file.topology, positions) != positions).any(1).nonzero().ravel().tolist()
    # Only the ammonium group at the start, whose hydrogens no rule numbers.
    assert {atom.name for atom in file.topology.atoms() if atom.index in moved} <= {"H2", "H3"}
