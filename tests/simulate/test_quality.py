"""What data are worth: by the slowest torsion of any molecule, rings included, and whether they have settled."""

import numpy as np
import pytest
import torch

from boltzkit.data import About, Dataset, DatasetWriter
from boltzkit.molecule import Molecule, find_molecule
from boltzkit.molecule.bond_torsions import bond_torsions
from boltzkit.run.plan import _has_pucker
from boltzkit.simulate import assess

WALKERS, FRAMES = 16, 60


@pytest.fixture(scope="module")
def proline() -> Molecule:
    return Molecule.from_sequence("ACE-PRO-NME")


def dataset(molecule: Molecule, folder, drift: float = 0.0) -> Dataset:
    """Noise around the reference structure, with energies that drift by some spreads."""
    random, n = np.random.default_rng(0), WALKERS * FRAMES
    frame = np.tile(np.arange(FRAMES), WALKERS)
    columns = {
        "positions": molecule.positions.numpy() + 0.003 * random.normal(size=(n, molecule.n_atoms, 3)),
        "energy": random.normal(size=n) + drift * frame / FRAMES,
        "trajectory": np.repeat(np.arange(WALKERS), FRAMES),
        "frame": frame,
    }
    with DatasetWriter(folder, About.of(molecule, 300.0)) as writer:
        writer.append("made up", "train", columns)
    return Dataset.open(folder, molecule)


@pytest.mark.parametrize(("drift", "seen"), [(0.0, None), (1.0, "energy")])
def test_data_that_have_not_settled_are_seen(drift, seen, tmp_path):
    molecule = find_molecule("alanine-dipeptide")
    quality = assess(dataset(molecule, tmp_path, drift), molecule)
    assert (quality.drifting and quality.drifting.name) == seen
    assert quality.to_json()["drifting"] == seen


def test_torsions_of_side_chains_and_rings_are_looked_at(proline, tmp_path):
    quality = assess(dataset(proline, tmp_path), proline)
    names = {o.name for o in quality.observables}
    assert {"cos φ PRO2", "sin ψ PRO2", "cis ACE1-PRO2"} <= names
    ring = {frozenset(t.atoms[1:3]) for t in bond_torsions(proline).values()}
    index = {atom.name: atom.index for atom in proline.topology.atoms() if atom.residue.name == "PRO"}
    assert {frozenset((index[a], index[b])) for a, b in (("CB", "CG"), ("CG", "CD"), ("CA", "CB"))} <= ring
    # A methyl top has no torsion of its own.
    acetyl = {atom.name: atom.index for atom in proline.topology.atoms() if atom.residue.name == "ACE"}
    assert frozenset((acetyl["CH3"], acetyl["C"])) not in ring


def test_what_was_never_seen_is_not_known_perfectly(tmp_path):
    molecule = find_molecule("alanine-dipeptide")
    quality = assess(dataset(molecule, tmp_path), molecule)
    cis = next(o for o in quality.observables if o.name.startswith("cis"))
    assert cis.mean == 0
    assert cis.effective == quality.effective
    assert cis.error == pytest.approx(3 / quality.effective)


def test_rings_that_fold_want_hot_walkers(proline):
    assert _has_pucker(proline)
    assert not _has_pucker(find_molecule("alanine-dipeptide"))
    assert not _has_pucker(Molecule.from_sequence("ACE-PHE-NME"))  # flat


def test_torsions_are_numbers(proline):
    rows = torch.tensor([torsion.atoms for torsion in bond_torsions(proline).values()])
    assert len(set(map(tuple, rows.tolist()))) == len(rows)
