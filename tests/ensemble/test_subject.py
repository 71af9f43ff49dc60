"""Ensembles that know their molecule."""

import json
from dataclasses import replace

import pytest
import torch

from boltzkit.ensemble import EXCHANGED, MIRROR, Ensemble, Subject, Verdict
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


@pytest.mark.parametrize("one_handed", [True, False])
def test_what_weighs_nothing_on_purpose_is_named_and_no_failure(one_handed, tmp_path):
    """Mirror images and exchanged hydrogens stay in the number; energies that overflow are failures as ever."""
    molecule = find_molecule("alanine-dipeptide")
    x = molecule.positions.float().repeat(1_000, 1, 1)
    x[:200] *= torch.tensor([-1.0, 1.0, 1.0])
    names = [atom.name for atom in molecule.topology.atoms()]
    first, second = (names.index(name) for name in ("HB1", "HB2"))
    x[200:300, [first, second]] = x[200:300, [second, first]]
    energy = torch.zeros(1_000, dtype=torch.float64)
    energy[:303] = torch.inf
    order = torch.randperm(1_000, generator=torch.Generator().manual_seed(0))
    subject = Subject(molecule, 300.0, one_handed)
    Ensemble.from_samples(x[order], energy[order], torch.zeros(1_000), subject=subject).save(tmp_path)
    found = Ensemble.load(tmp_path)
    assert (found.n, found.weights.n_failed) == (1_000, 303)
    if one_handed:
        assert found.weights.failures == {MIRROR: 200, EXCHANGED: 100, "energy is +inf": 3}
        assert found.verdict.level == "trust"
    else:  # The control: where they are not forbidden, an energy of +inf is a failure.
        assert found.weights.failures == {"energy is +inf": 303}
        assert found.verdict.level == "do not trust"


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
