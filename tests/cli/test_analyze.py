"""boltzkit analyze: what it prints and writes, and how it ends."""

import json
import re

import numpy as np
import pytest
import torch
from cyclopts import App

from boltzkit.cli.analyze import analyze
from boltzkit.data import About, DatasetWriter
from boltzkit.ensemble import Ensemble, Subject
from boltzkit.errors import UserError
from boltzkit.molecule import find_molecule
from boltzkit.molecule.torsions import turned_about
from boltzkit.randomness import generator


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """An ensemble of alanine dipeptide, turned about φ: three parts in four at −80°, one at 60°; twelve failed."""
    molecule = find_molecule("alanine-dipeptide-cartesian")
    random = generator(0, "cli")
    x = molecule.positions + 0.003 * torch.randn(600, 22, 3, generator=random)
    names = {(a.residue.name, a.name): a.index for a in molecule.topology.atoms()}
    beyond = torch.tensor(
        [a.index for a in molecule.topology.atoms() if a.residue.name != "ACE" and a.name not in ("N", "H")]
    )
    beyond = beyond[beyond != names["ALA", "CA"]]
    x[::4] = turned_about(
        x[::4], (names["ALA", "N"], names["ALA", "CA"]), beyond, torch.full((150,), -2.4).double()
    )
    energy = 0.3 * torch.randn(600, generator=random)
    energy[-12:] = torch.nan
    ensemble = Ensemble.from_samples(
        x.float(), energy, torch.zeros(600), name=molecule.name, subject=Subject(molecule, 300.0)
    )
    path = tmp_path_factory.mktemp("ensembles") / "ensemble"
    ensemble.save(path)
    return path


@pytest.fixture(scope="module")
def poor(folder, tmp_path_factory):
    """The same, but one sample outweighs all others."""
    ensemble = Ensemble.load(folder)
    energy = ensemble.energy.clone()
    energy[0] = -40.0
    path = tmp_path_factory.mktemp("ensembles") / "poor"
    Ensemble.from_samples(
        ensemble.x, energy, ensemble.log_prob, name=ensemble.name, subject=ensemble.subject
    ).save(path)
    return path


def table(out, title):
    """Return the rows of a printed table by their first word group."""
    lines = out.split("\n")
    start = next(i for i, line in enumerate(lines) if line.startswith(title))
    end = next(i for i in range(start, len(lines)) if not lines[i].strip())
    return lines[start + 1 : end]


def test_it_prints_tables_and_the_verdict(folder, capsys):
    assert analyze(folder) == 0
    out = capsys.readouterr().out
    assert out.startswith("600 samples of alanine-dipeptide-cartesian at 300 K; intervals of 95 %.\n")
    assert re.search(r"^failed: energy is NaN +12$", out, re.MULTILINE)
    averages = table(out, "average")
    assert any(row.startswith("phi ALA2") and row.endswith("°") for row in averages)
    assert any(row.startswith("radius_of_gyration") and row.endswith("nm") for row in averages)
    left, right = table(out, "state")
    assert left.startswith("phi ALA2 < 0")
    assert right.endswith("phi ALA2 < 0")
    assert 20 < float(right.split()[4]) < 30
    assert len(table(out, "cluster")) == 2
    assert "Verdict: with care." in out
    assert "12 of 600 samples failed" in out


def test_strict_is_for_scripts(folder, poor, capsys):
    assert analyze(folder, strict=True) == 0
    assert analyze(poor) == 0
    assert analyze(poor, strict=True) == 3
    assert "Verdict: do not trust." in capsys.readouterr().out


def test_files(folder, tmp_path, capsys):
    pytest.importorskip("mdtraj")
    states = tmp_path / "states.toml"
    states.write_text('[left]\n"phi ALA2" = [-180, 0]\n[right]\n"phi ALA2" = [0, 180]\n')
    out = tmp_path / "analysis"
    assert analyze(folder, states=states, out=out, export="xtc", resampled=1_000, confidence=0.9) == 0
    told = capsys.readouterr().out
    assert "intervals of 90 %" in told
    assert "trajectory.xtc holds 1,000 frames of " in told
    stored = json.loads((out / "analysis.json").read_text())
    assert [row["name"] for row in stored["states"]] == ["left", "right"]
    assert stored["states"][0]["population"]["confidence"] == stored["confidence"] == 0.9
    names = {path.name for path in out.iterdir()}
    assert {"trajectory.xtc", "topology.pdb", "weights.csv", "averages.csv", "cluster-1.pdb"} <= names


def test_another_temperature(folder, capsys):
    assert analyze(folder, temperature=310.0) == 0
    out = capsys.readouterr().out
    assert "at 310 K" in out
    assert "−log Z'/Z = " in out


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"export": "xtc"}, "--out FOLDER beside --export"),
        ({"resampled": 5}, "--resampled goes with --export"),
        ({"export": "xtc", "out": "x", "resampled": 0}, "--resampled must be at least 1"),
        ({"confidence": 95.0}, "--confidence lies between 0 and 1"),
        ({"temperature": -1.0}, "positive number of kelvin"),
    ],
)
def test_a_mistake_is_one_sentence(folder, settings, sentence):
    with pytest.raises(UserError, match=sentence):
        analyze(folder, **settings)


def test_an_ensemble_without_a_molecule_is_refused(tmp_path):
    Ensemble.from_samples(torch.zeros(9, 2), torch.zeros(9), torch.zeros(9), name="gmm").save(tmp_path)
    with pytest.raises(UserError, match="gmm is no molecule"):
        analyze(tmp_path, states=tmp_path / "states.toml")


@pytest.fixture(scope="module")
def data(folder, tmp_path_factory):
    """A dataset of the same configurations: one part in four at φ = 60°."""
    ensemble = Ensemble.load(folder)
    path = tmp_path_factory.mktemp("datasets") / "data"
    with DatasetWriter(path, About.of(ensemble.subject.molecule, 300.0)) as writer:
        n = 600
        frames = {
            "positions": ensemble.x.numpy(),
            "energy": np.zeros(n),
            "trajectory": np.arange(n),
            "frame": np.zeros(n, dtype=np.int64),
        }
        writer.append("made up", "test", frames)
    return path


def test_a_basin_that_data_have_and_the_ensemble_lacks_ends_trust(folder, data, tmp_path, capsys):
    assert analyze(folder, data=data, strict=True) == 0  # control: nothing is missing
    assert "lacks a basin" not in capsys.readouterr().out
    whole = Ensemble.load(folder)
    cut = torch.arange(600) % 4 > 0
    Ensemble.from_samples(
        whole.x[cut], whole.energy[cut], whole.log_prob[cut], name=whole.name, subject=whole.subject
    ).save(tmp_path / "cut")
    assert analyze(tmp_path / "cut", strict=True) == 0  # its weights alone cannot tell
    assert analyze(tmp_path / "cut", data=data, strict=True) == 3
    assert "The flow lacks a basin of the data: phi ALA2 near" in capsys.readouterr().out


def test_data_of_another_kind_are_refused(folder, data, tmp_path):
    ensemble = Ensemble.load(folder)
    about = {"bias": "a wall", "temperature": 300.0}
    for changed, sentence in (({"bias": None, "temperature": 310.0}, "is of 310 K"), (about, "is biased")):
        path = tmp_path / sentence
        with DatasetWriter(
            path, About.of(ensemble.subject.molecule, changed["temperature"], bias=changed["bias"])
        ):
            pass
        with pytest.raises(UserError, match=sentence):
            analyze(folder, data=path)


def test_its_examples_are_commands():
    app = App()
    app.command(analyze)
    lines = [line.split() for line in (analyze.__doc__ or "").split("```")[1].split("\n") if line.split()]
    assert len(lines) == 5
    for words in lines:
        assert words[:2] == ["boltzkit", "analyze"]
        assert app.parse_args(words[1:], print_error=False, exit_on_error=False)[0] is analyze
