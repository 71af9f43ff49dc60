"""Starts of short trajectories: minima that are found, structures that are given, and data that say they are biased."""

import math
from io import StringIO
from pathlib import Path

import numpy as np
import pytest
import torch
from openmm import app

from boltzkit.data import Dataset
from boltzkit.errors import UserError
from boltzkit.molecule import Backbone, Molecule, find_molecule
from boltzkit.simulate import MinimaSearch, SeededSimulation, find_minima, simulate_seeded
from boltzkit.simulate.minima import chain_torsions, select_apart
from boltzkit.simulate.starts import read_starts

BASINS = torch.tensor([[-146.0, 161.0], [-62.0, -49.0], [45.0, -117.0], [43.0, 60.0]])
"""(φ, ψ) of the main minima of alanine dipeptide in ff96 with OBC1: two on the left, two rare ones on the right."""


@pytest.fixture(scope="module")
def dipeptide() -> Molecule:
    return find_molecule("alanine-dipeptide")


@pytest.fixture(scope="module")
def minima(dipeptide: Molecule) -> torch.Tensor:
    return find_minima(dipeptide, MinimaSearch(walkers=48, sweeps=40, seed=4))


def test_the_main_basins_are_found_from_one_structure(dipeptide: Molecule, minima: torch.Tensor) -> None:
    backbone = Backbone.of(dipeptide.topology)
    angles = backbone.angles(minima)[:, 0] * (180 / math.pi)
    assert (angles - BASINS).abs().max() < 3
    assert not backbone.cis(minima).any()
    energy, gradient = dipeptide.energy(precision=torch.float64).energy_and_gradient(minima)
    assert (energy.diff() > 0).all()
    assert gradient.abs().max() < 2  # reduced, per nm; thermal forces are a thousand times as large


def test_close_minima_count_once(minima: torch.Tensor) -> None:
    torsions = torch.tensor([[3.1, 0.0], [-3.1, 0.1], [0.0, 0.0], [3.1, 2.0]])
    energy = torch.tensor([1.0, 0.0, 3.0, 2.0])
    assert select_apart(torsions, energy, MinimaSearch()) == [1, 3, 2]
    assert select_apart(torsions, energy, MinimaSearch(count=2)) == [1, 3]
    assert select_apart(torsions, energy, MinimaSearch(separation=0.01)) == [1, 0, 3, 2]


def test_torsions_are_those_along_the_chain(dipeptide: Molecule) -> None:
    rows = {tuple(sorted((b, c))) for _, b, c, _ in chain_torsions(dipeptide).tolist()}
    backbone = Backbone.of(dipeptide.topology)
    expected = torch.cat([backbone.phi, backbone.psi, backbone.omega])
    assert rows == {tuple(sorted((b, c))) for _, b, c, _ in expected.tolist()}


def test_the_data_say_that_they_are_biased(dipeptide: Molecule, minima: torch.Tensor, tmp_path: Path) -> None:
    np.save(tmp_path / "starts.npy", minima.numpy())
    config = SeededSimulation(
        samples=8 * 20,
        repeats=2,
        segment=10,
        equilibration=0.01,
        starts=tmp_path / "starts.npy",
        validation=0.25,
    )
    told: list[str] = []
    simulate_seeded(dipeptide, config, tmp_path / "data", told.append)
    dataset = Dataset.open(tmp_path / "data", dipeptide)
    assert dataset.about.bias is not None
    assert "not from its Boltzmann weight" in dataset.about.bias
    assert dataset.manifest.counts == {"train": 120, "validation": 40, "test": 0}
    angles = Backbone.of(dipeptide.topology).angles(torch.from_numpy(dataset.positions(np.arange(120))))
    assert ((angles[..., 0] > 0).double().mean() - 0.35).abs() < 0.2  # far from the 0.2 % of equilibrium
    assert "(-146°, 161°)" in told[0]


def pdb(molecule: Molecule, structures: torch.Tensor, path: Path) -> Path:
    text = StringIO()
    app.PDBFile.writeHeader(molecule.topology, text)
    for model, x in enumerate(structures):
        app.PDBFile.writeModel(molecule.topology, x.numpy() * 10, text, modelIndex=model + 1)
    app.PDBFile.writeFooter(molecule.topology, text)
    path.write_text(text.getvalue())
    return path


def test_all_models_of_a_file_are_starts(dipeptide: Molecule, minima: torch.Tensor, tmp_path: Path) -> None:
    path = pdb(dipeptide, minima, tmp_path / "models.pdb")
    torch.testing.assert_close(read_starts(path, dipeptide), minima, atol=1e-4, rtol=0)


def test_starts_of_something_else_are_refused(
    dipeptide: Molecule, triangle: Molecule, tmp_path: Path
) -> None:
    other = pdb(triangle, triangle.positions[None], tmp_path / "other.pdb")
    with pytest.raises(UserError, match="has 3 atoms, but alanine-dipeptide has 22"):
        read_starts(other, dipeptide)
    x = dipeptide.positions.numpy()
    for frames, sentence in (
        (x[None] * 10, "Å|ångström|angstrom|nm"),
        (np.stack([x, x[::-1]]), "structure 2 is not of alanine-dipeptide"),
        (x[None, :21], "has 21 atoms"),
        (np.full_like(x, np.nan)[None], "not finite"),
    ):
        np.save(tmp_path / "x.npy", frames)
        with pytest.raises(UserError, match=sentence):
            read_starts(tmp_path / "x.npy", dipeptide)
    with pytest.raises(UserError, match=r"missing\.pdb"):
        read_starts(tmp_path / "missing.pdb", dipeptide)
