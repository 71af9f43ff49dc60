"""What notebooks and shells show of values: in words, escaped, and never pages of numbers."""

import pytest

import boltzkit as bk
from boltzkit.ensemble import Ensemble, Verdict
from boltzkit.method import Model, gmm
from boltzkit.weights import Estimate

NASTY = "<script>alert(1)</script>"


@pytest.fixture(scope="module")
def drawn() -> Ensemble:
    return bk.load("alanine-dipeptide").ensemble(600)


def test_an_ensemble_is_one_line(drawn):
    shown = repr(drawn)
    assert shown.startswith("Ensemble('alanine-dipeptide', 600 samples, ")
    assert shown.endswith("verdict: " + drawn.verdict.level + ")")
    assert "\n" not in shown


def test_a_model_says_what_it_is():
    model = Model.untrained(gmm())
    assert repr(model) == f"Model({model.target.name!r}, realnvp of 403,230 parameters, step 0)"
    assert "403,230" in model._repr_html_()
    assert "temperature" not in model._repr_html_()
    assert "<td>300 K</td>" in bk.load("alanine-dipeptide")._repr_html_()


def test_a_molecule_shows_its_residues_and_forces():
    molecule = bk.molecules.alanine_dipeptide()
    shown = molecule._repr_html_()
    assert "<td>ACE ALA NME</td>" in shown
    assert "PeriodicTorsionForce" in shown
    assert NASTY not in molecule.named(NASTY)._repr_html_()


def test_a_number_comes_with_its_interval():
    assert Estimate.symmetric(1.5, 0.1)._repr_html_() == "1.5 [1.304, 1.696] (95 %)"


def test_a_verdict_comes_with_its_reasons():
    verdict = Verdict("with care", ("few & far", NASTY))
    assert str(verdict) == f"with care\n- few & far\n- {NASTY}"
    assert "<li>few &amp; far</li>" in verdict._repr_html_()
    assert NASTY not in verdict._repr_html_()


def test_an_analysis_shows_states_and_averages(drawn):
    shown = bk.analysis.analyse(drawn)._repr_html_()
    assert "<th>ΔF / kT</th>" in shown
    assert "phi ALA2" in shown
    assert drawn.verdict.level in shown
