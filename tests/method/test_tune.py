"""The tuner: the right trials, the lowest score, nothing diverged chosen."""

import importlib
import json
import math

import pytest

from boltzkit.energy import Target
from boltzkit.errors import UserError
from boltzkit.method import RunConfig, Trial, TuneConfig, tune
from boltzkit.reproduce.gmm import SCALES

# The function of the same name hides the module.
MODULE = importlib.import_module("boltzkit.method.tune")

GRID = TuneConfig(learning_rates=(1e-6, 1e-2), data_weights=(0.1, 1.0), seeds=(11, 12))


def no_training(*arguments: object) -> None:
    raise AssertionError("a group was trained")


def test_a_grid_tries_every_setting_once(tiny, tmp_path):
    told = []
    tuning = tune(tiny("objective.dispersion=l1"), GRID, tmp_path, tell=told.append)
    settings = [(t.learning_rate, t.data_weight, t.steps) for t in tuning.trials]
    assert sorted(settings) == [(1e-6, 0.1, 10), (1e-6, 1.0, 10), (1e-2, 0.1, 10), (1e-2, 1.0, 10)]
    assert tuning.best == min(tuning.trials, key=lambda t: t.score)
    # Ten steps at the tiny rate change nothing; the score must see that.
    assert tuning.best.learning_rate == 1e-2
    assert len(told) == 2
    # Only the scores are kept, not the runs.
    assert sorted(path.name for path in tmp_path.iterdir()) == [".lock", "trials.json"]


def test_weights_are_tuned_only_where_there_are_two_terms(tiny, tmp_path):
    tuning = tune(tiny("objective.data_weight=0.7"), GRID, tmp_path)
    assert {(t.learning_rate, t.data_weight) for t in tuning.trials} == {(1e-6, 0.7), (1e-2, 0.7)}


def test_halving_keeps_the_best_of_each_rung(tiny, tmp_path):
    options = TuneConfig(
        learning_rates=(1e-6, 1e-3, 1e-2, 3e-2), data_weights=(0.3, 1.0), rungs=(0.2, 0.5, 1.0), keep=0.4
    )
    tuning = tune(tiny("objective.dispersion=l1"), options, tmp_path)
    rungs = {steps: [t for t in tuning.trials if t.steps == steps] for steps in (2, 5, 10)}
    # 8 settings, then ceil(0.4 · 8) = 4, then ceil(0.4 · 4) = 2, which is the least.
    assert {steps: len(trials) for steps, trials in rungs.items()} == {2: 8, 5: 4, 10: 2}
    assert len(tuning.trials) == 14
    for short, long in ((2, 5), (5, 10)):
        ranked = sorted(rungs[short], key=lambda t: t.score)
        survivors = {(t.learning_rate, t.data_weight) for t in ranked[: len(rungs[long])]}
        assert {(t.learning_rate, t.data_weight) for t in rungs[long]} == survivors
    assert tuning.best == min(rungs[10], key=lambda t: t.score)


@pytest.fixture
def best_at(monkeypatch):
    """Let one learning rate score best, and others the worse the further they are from it."""

    def choose(rate):
        def run_group(config, seeds, group, folder, watch):
            apart = abs(math.log(group.rate / rate))
            return [Trial(group.rate, weight, group.steps, apart) for weight in group.weights]

        monkeypatch.setattr(MODULE, "run_group", run_group)

    return choose


@pytest.mark.parametrize(
    ("rate", "beyond", "more"),
    [
        (1e-2, 0, []),
        (1e-2, 1, [3.2e-4]),
        (1e-2, 3, [3.2e-4, 1e-3, 3.2e-3]),
        (3.2e-4, 3, [3.2e-4, 1e-3]),  # one further shows that it was the best
        (1e-6, 2, [3.2e-6, 1e-6]),
        (2e-5, 3, [3.2e-6]),
    ],
)
def test_a_best_rate_on_the_edge_widens_the_grid(rate, beyond, more, best_at, tiny, tmp_path):
    best_at(rate)
    grid = TuneConfig(learning_rates=(1e-5, 1e-4), seeds=(11,), beyond=beyond)
    tuning = tune(tiny(), grid, tmp_path)
    assert [t.learning_rate for t in tuning.trials] == [1e-5, 1e-4, *more]
    assert tuning.best == min(tuning.trials, key=lambda trial: trial.score)
    assert tune(tiny(), grid, tmp_path) == tuning


def test_a_best_rate_inside_the_grid_does_not(best_at, tiny, tmp_path):
    best_at(1e-3)
    grid = TuneConfig(learning_rates=(1e-4, 1e-3, 1e-2), seeds=(11,), beyond=3)
    assert len(tune(tiny(), grid, tmp_path).trials) == 3


def test_two_settings_reach_the_next_rung_at_least(tiny, tmp_path):
    options = TuneConfig(learning_rates=(1e-6, 1e-3, 1e-2), rungs=(0.2, 1.0), keep=0.01)
    tuning = tune(tiny(), options, tmp_path)
    assert [t.steps for t in tuning.trials].count(10) == 2


def test_the_best_setting_is_applied_and_nothing_else(tiny, tmp_path):
    config = tiny("objective.dispersion=l1", "objective.warm_up=4", "seed=5")
    tuning = tune(config, GRID.model_copy(update={"rungs": (0.5,)}), tmp_path)
    best = tuning.best
    assert best.steps == 5
    assert tuning.apply(config) == config.with_overrides(
        [f"training.learning_rate={best.learning_rate}", f"objective.data_weight={best.data_weight}"]
    )


DIVERGING = ("training.max_failed_steps=3", "training.schedule=constant", "training.steps=30")


def test_a_diverging_rate_scores_infinity_and_is_not_chosen(tiny, tmp_path):
    options = TuneConfig(learning_rates=(1e-3, 1e6, 1e30))
    tuning = tune(tiny(*DIVERGING), options, tmp_path)
    scores = {t.learning_rate: t.score for t in tuning.trials}
    assert scores[1e30] == math.inf
    assert scores[1e6] > scores[1e-3]
    assert math.isfinite(scores[1e-3])
    assert tuning.best.learning_rate == 1e-3
    # Infinity is null on disk, and infinity again when read.
    content = json.loads((tmp_path / "trials.json").read_text(), parse_constant=no_training)
    assert content["groups"]["rung-1-rate-1e+30"][0]["score"] is None
    assert tune(tiny(*DIVERGING), options, tmp_path) == tuning


def test_nothing_to_choose_from_is_refused(tiny, tmp_path):
    with pytest.raises(UserError, match="Every trial failed: try lower learning rates"):
        tune(tiny(*DIVERGING), TuneConfig(learning_rates=(1e30,)), tmp_path)


def test_a_mistake_is_no_failed_trial(tiny, tmp_path):
    with pytest.raises(UserError, match="nothing to minimise"):
        tune(tiny("objective.data=none"), GRID, tmp_path)


def test_trial_seeds_are_not_those_of_final_runs():
    trial = set(TuneConfig().seeds)
    assert RunConfig().seed not in trial
    assert all(trial.isdisjoint(scale.seeds) for scale in SCALES.values())


@pytest.mark.parametrize(
    "options",
    [
        {"learning_rates": []},
        {"learning_rates": [0.0]},
        {"rungs": [0.0]},
        {"keep": 0},
        {"keep": 1.5},
        {"seeds": []},
        {"data_weights": [-1]},
    ],
)
def test_an_empty_or_senseless_grid_is_refused(options):
    with pytest.raises(UserError, match=next(iter(options))):
        TuneConfig.parse(options)


def test_without_validation_nothing_is_trained(tiny, tmp_path, monkeypatch):
    monkeypatch.setattr(Target, "can_sample", property(lambda self: False))
    monkeypatch.setattr(MODULE, "run_group", no_training)
    with pytest.raises(UserError, match=r"^Tuning needs validation data: set data\.validation_path\.$"):
        tune(tiny(), GRID, tmp_path)
