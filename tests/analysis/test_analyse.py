"""Everything at once, against the density the peptide was drawn from, in memory and on disk."""

import csv
import json
import math

import numpy as np
import pytest
import torch
from openmm import app

from boltzkit.analysis import Analysis, State, analyse, automatic_states, state_results, write_analysis
from boltzkit.ensemble import Ensemble, Subject
from boltzkit.errors import UserError


@pytest.fixture(scope="module")
def ensemble(peptide_ensemble) -> Ensemble:
    return peptide_ensemble(1_500, failed=30)


@pytest.fixture(scope="module")
def analysis(ensemble) -> Analysis:
    return analyse(ensemble)


def test_what_is_in_it(analysis):
    assert {row.name for row in analysis.averages} >= {"phi ALA2", "rmsd", "sasa", "3J(HN,HA) ALA2"}
    assert [row.name for row in analysis.states] == ["phi ALA2 < 0", "phi ALA2 > 0"]
    assert [row.name for row in analysis.profiles] == ["phi ALA2", "psi ALA2"]
    assert [row.names for row in analysis.surfaces] == [("phi ALA2", "psi ALA2")]
    assert len(analysis.clusters) == 4
    assert analysis.trusted


def test_the_numbers_are_right(analysis):
    right = analysis.states[1]
    assert abs(right.population.value - 0.2) < 4 * right.population.standard_error
    assert abs(right.free_energy.value - math.log(4)) < 4 * right.free_energy.standard_error
    well = analysis.profiles[0].cells.free_energy
    near, far = (int((degrees + 180) / 6) for degrees in (-80, 60))
    assert float(well[far] - well[near]) == pytest.approx(math.log(4), abs=0.6)
    raw = analysis.profiles[0].cells.raw
    assert float(raw[far] - raw[near]) == pytest.approx(0, abs=0.6)


def test_failed_samples_are_counted_everywhere(analysis, ensemble):
    assert (analysis.summary["n"], analysis.summary["n_failed"]) == (1_500, 30)
    assert sum(row.n_samples for row in analysis.states) == 1_470
    assert all(row.n_failed == 30 for row in (*analysis.profiles, *analysis.surfaces))
    assert all(c.sample < 1_470 for c in analysis.clusters)
    # And change nothing but the estimate of Z.
    sound = Ensemble.from_samples(
        *(part[:-30] for part in (ensemble.x, ensemble.energy, ensemble.log_prob)), subject=ensemble.subject
    )
    same = analyse(sound)
    assert [row.mean for row in same.averages] == [row.mean for row in analysis.averages]
    assert same.states[1].population == analysis.states[1].population
    assert analysis.summary["log_z"] == pytest.approx(same.summary["log_z"] + math.log(1_470 / 1_500))


def test_files(analysis, tmp_path):
    files = {path.name for path in write_analysis(analysis, tmp_path)}
    assert files == {path.name for path in tmp_path.iterdir()}
    assert files == {
        "analysis.json", "averages.csv", "states.csv", "profiles.csv", "surfaces.csv",
        "cluster-1.pdb", "cluster-2.pdb", "cluster-3.pdb", "cluster-4.pdb",
    }  # fmt: skip
    stored = json.loads((tmp_path / "analysis.json").read_text())
    assert stored == json.loads(json.dumps(analysis.to_json()))
    assert stored["states"][1]["population"]["value"] == analysis.states[1].population.value
    tables = {
        name: list(csv.DictReader((tmp_path / name).read_text().splitlines()))
        for name in files
        if name.endswith("csv")
    }
    assert {k: len(v) for k, v in tables.items()} == {
        "averages.csv": 9, "states.csv": 2, "profiles.csv": 120, "surfaces.csv": 48 * 48
    }  # fmt: skip
    first = tables["averages.csv"][0]
    assert (first["observable"], first["unit"]) == ("phi ALA2", "deg")
    assert float(first["mean"]) == pytest.approx(math.degrees(analysis.averages[0].mean.value))
    # Empty cells are empty words.
    assert any(row["free_energy_kT"] == "" for row in tables["surfaces.csv"])
    positions = app.PDBFile(str(tmp_path / "cluster-1.pdb")).getPositions(asNumpy=True)._value
    np.testing.assert_allclose(positions, analysis.clusters[0].x.numpy(), atol=6e-5)


def test_own_states_with_an_empty_one(ensemble):
    states = [
        State("all", lambda x: x[:, 0, 0].isfinite()),
        State("none", lambda x: torch.zeros(len(x), dtype=torch.bool)),
    ]
    every, none = state_results(ensemble, states)
    assert (every.population.value, every.free_energy.value) == (pytest.approx(1), 0)
    assert (none.free_energy, none.n_samples, none.reference) == (None, 0, "all")
    assert 0 == none.population.value < none.population.high < 0.01


def test_states_of_a_group_are_compared_with_each_other(ensemble):
    def part(low, high):
        return lambda x: (torch.arange(len(x)) >= low) & (torch.arange(len(x)) < high)

    states = [
        State("a", part(0, 400), "first"),
        State("b", part(400, 1_470), "first"),
        State("c", part(0, 100), "second"),
    ]
    assert [row.reference for row in state_results(ensemble, states)] == ["b", "b", "c"]


def test_confidence_widens(ensemble):
    states = automatic_states(ensemble)
    wide, narrow = (state_results(ensemble, states, c)[1].population for c in (0.99, 0.5))
    assert wide.low < narrow.low < narrow.high < wide.high


def test_a_ligand(ligand):
    molecule = ligand("aspirin")
    random = torch.Generator().manual_seed(0)
    x = molecule.positions + 0.01 * torch.randn(300, 21, 3, generator=random)
    energy = torch.zeros(300)
    energy[5] = math.nan
    found = analyse(Ensemble.from_samples(x, energy, torch.zeros(300), subject=Subject(molecule, 300.0)))
    assert len(found.profiles) == 4
    assert found.surfaces == ()
    assert found.summary["n_failed"] == 1
    json.dumps(found.to_json(), allow_nan=False)


def test_a_poor_ensemble_is_not_trusted(ensemble):
    heavy = ensemble.energy.clone()
    heavy[0] = float(heavy[:-30].min()) - 50
    poor = Ensemble.from_samples(ensemble.x, heavy, ensemble.log_prob, subject=ensemble.subject)
    assert not analyse(poor).trusted


def test_what_is_no_molecule_is_refused(gaussian_ensemble):
    with pytest.raises(UserError, match="is no molecule"):
        analyse(gaussian_ensemble(1.0, 20))


def test_no_weight_is_told(ensemble):
    empty = Ensemble.from_samples(
        ensemble.x[:5], torch.full((5,), math.nan), ensemble.log_prob[:5], subject=ensemble.subject
    )
    with pytest.raises(UserError, match="None of the 5 samples carries weight"):
        analyse(empty)
