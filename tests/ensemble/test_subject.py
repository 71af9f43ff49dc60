"""Ensembles that know their molecule."""

import json
from dataclasses import replace

import pytest
import torch

from boltzkit.ensemble import Ensemble, Subject, Verdict
from boltzkit.errors import UserError
from boltzkit.molecule import find_molecule, save_molecule


@pytest.fixture
def ensemble():
    molecule = find_molecule("alanine-dipeptide")
    x = molecule.positions.float() + 0.001 * torch.arange(5.0)[:, None, None]
    energy, log_prob = torch.linspace(0, 1, 5).double(), torch.zeros(5).double()
    return Ensemble.from_samples(x, energy, log_prob, name="ala", subject=Subject(molecule, 310.0))


def test_a_folder_brings_its_molecule_back(ensemble, tmp_path):
    ensemble.save(tmp_path)
    again = Ensemble.load(tmp_path)
    assert again.subject.molecule.hash == ensemble.subject.molecule.hash
    assert again.subject.molecule.name == "ala"
    assert again.subject.temperature == 310.0
    assert (tmp_path / "topology.pdb").is_file()


def test_samples_of_another_molecule_are_refused(ensemble, tmp_path):
    ensemble.save(tmp_path)
    save_molecule(find_molecule("alanine-dipeptide-cartesian"), tmp_path)
    with pytest.raises(UserError, match="not of the molecule that the samples were drawn for"):
        Ensemble.load(tmp_path)


def test_other_samples_have_none(tmp_path):
    plain = Ensemble.from_samples(torch.zeros(3, 2), torch.zeros(3), torch.zeros(3))
    plain.save(tmp_path)
    assert Ensemble.load(tmp_path).subject is None


def test_a_notebook_shows_the_verdict_and_no_markup_of_names():
    plain = Ensemble.from_samples(torch.zeros(600, 2), torch.zeros(600), torch.zeros(600), name="<b>x</b>")
    shown = plain._repr_html_()
    assert "trust" in shown
    assert "600 of 600" in shown
    assert "<b>x</b>" not in shown.replace("&lt;b&gt;x&lt;/b&gt;", "")


def test_findings_stay_with_the_samples(tmp_path):
    plain = Ensemble.from_samples(torch.zeros(600, 2), torch.zeros(600), torch.zeros(600))
    assert plain.verdict.level == "trust"
    judged = replace(plain, findings=(("do not trust", "A basin is missing."),))
    judged.save(tmp_path)
    again = Ensemble.load(tmp_path)
    assert again.findings == judged.findings
    assert again.verdict == Verdict("do not trust", ("A basin is missing.",))


@pytest.mark.parametrize(
    "findings", ["x", [["trust"]], [["fine", "x"]], [["trust", 1]], [[["trust"], "x"]], {"a": 1}]
)
def test_findings_that_are_none_are_refused(findings, tmp_path):
    Ensemble.from_samples(torch.zeros(3, 2), torch.zeros(3), torch.zeros(3)).save(tmp_path)
    summary = tmp_path / "summary.json"
    summary.write_text(json.dumps(json.loads(summary.read_text()) | {"findings": findings}))
    with pytest.raises(UserError, match="is not the summary of an ensemble"):
        Ensemble.load(tmp_path)
