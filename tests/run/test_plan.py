"""What is done with a request, and why."""

import pytest

from boltzkit.errors import UserError
from boltzkit.method import find_recipe
from boltzkit.molecule import Molecule, find_molecule
from boltzkit.run import Request
from boltzkit.run.plan import choose_method, describe, fitted, flow_for, make_plan, planned_training

ALANINE = "alanine-dipeptide"


@pytest.mark.parametrize(
    ("given", "method"),
    [
        ({}, "sampler"),
        ({"data": ("a.xtc",)}, "data"),
        ({"evaluations": 1000}, "cmt"),
        ({"method": "cmt"}, "cmt"),
        ({"evaluations": 1000, "method": "cmt"}, "cmt"),
        ({"data": ("a.xtc",), "method": "biased"}, "biased"),
    ],
)
def test_what_is_given_decides(given, method):
    assert choose_method(Request(molecule=ALANINE, **given))[0] == method


@pytest.mark.parametrize(
    "given", [{"method": "data"}, {"method": "biased"}, {"method": "cmt", "data": ("a.xtc",)}]
)
def test_data_and_their_method_go_together(given):
    with pytest.raises(UserError, match="--method data and biased go with --data"):
        choose_method(Request(molecule=ALANINE, **given))


@pytest.mark.parametrize("given", [{"method": "sampler"}, {"data": ("a.xtc",)}])
def test_a_budget_that_would_be_ignored_is_refused(given):
    with pytest.raises(UserError, match="--evaluations bounds learning from the energy alone"):
        choose_method(Request(molecule=ALANINE, evaluations=1000, **given))


def test_biased_data_are_learned_as_such():
    request = Request(molecule=ALANINE, data=("folder",))
    assert choose_method(request, "an umbrella") == ("biased", "the data are biased: an umbrella")
    with pytest.raises(UserError, match="an umbrella"):
        choose_method(request.model_copy(update={"method": "data"}), "an umbrella")
    config = planned_training(request, "biased", "folder", ALANINE, 22)
    assert config.data.biased
    found = fitted(config, seconds=250.0, step=0.1)
    assert found.training.steps == found.importance.steps == 1000


def test_the_flow_grows_with_the_molecule():
    widths = [flow_for(n).hidden[0] for n in (6, 22, 50, 200)]
    assert widths == sorted(set(widths))


def test_more_time_means_more_samples():
    molecule = find_molecule(ALANINE)
    short, long = (make_plan(Request(molecule=ALANINE, minutes=m), molecule) for m in (0.01, 1000))
    assert short.simulation.samples == 10_000
    assert 450_000 < long.simulation.samples <= 500_000
    # Each of the walkers also comes further, before the first sample and after it.
    assert short.simulation.equilibration < long.simulation.equilibration
    assert long.simulation.tempering.walkers <= 512
    assert long.simulation.temperature == 300
    words = describe(short, Request(molecule=ALANINE, minutes=0.01), molecule)
    assert "10,000 samples are drawn first" in words
    # The least that is drawn takes longer than that, and it is said.
    assert "for samples to learn from, 0.006 to train, 0.002 for the rest; more than asked for" in words
    # Samples have an upper bound: with so much time they take less than their share, and the share is told.
    words = describe(long, Request(molecule=ALANINE, minutes=1000), molecule)
    assert "About 1000 minutes: 200 for samples" in words
    assert make_plan(Request(molecule=ALANINE, evaluations=5000), molecule).simulation is None


def test_large_molecules_are_sampled_hot_too():
    plan = make_plan(
        Request(molecule="alanine-tetrapeptide", minutes=0.01), find_molecule("alanine-tetrapeptide")
    )
    assert plan.simulation.tempering.temperatures > 1


def test_rings_that_fold_are_sampled_hotter_still():
    moves = make_plan(Request(molecule="ACE-PRO-NME", minutes=0.01), Molecule.from_sequence("ACE-PRO-NME"))
    plain = make_plan(Request(molecule="ACE-VAL-NME", minutes=0.01), Molecule.from_sequence("ACE-VAL-NME"))
    assert moves.simulation.tempering.hottest > 2 > plain.simulation.tempering.hottest
    assert moves.simulation.tempering.leaps > plain.simulation.tempering.leaps


def test_steps_fill_the_time():
    config = find_recipe("unbiased")
    found = fitted(config, seconds=100.0, step=0.1)
    assert found.training.steps == 1000
    assert found.objective.warm_up == 100
    assert fitted(config, 1.0, 0.1).training.steps == 400
    assert fitted(config, 1e9, 0.1).training.steps == 60_000


def test_a_budget_of_evaluations_reaches_the_training():
    request = Request(molecule=ALANINE, evaluations=123_456)
    config = planned_training(request, "cmt", None, ALANINE, 22)
    assert config.annealing.evaluations == 123_456
    assert config.annealing.effective == 493  # a 250th, as of the recipe's million
    assert planned_training(request, "sampler", "data", ALANINE, 22).annealing is None
