"""Groups of trials: what trains at a time, and that it scores the mean over seeds."""

import pytest

from boltzkit.method import TuneConfig, fit_side_by_side, tune
from boltzkit.method.annealing import AnnealingConfig
from boltzkit.method.trial_group import TrialGroup, trial_groups
from boltzkit.method.validation import Validation


def test_a_score_is_the_mean_validation_nll_over_seeds(tiny, tmp_path):
    """Computed again by hand, for one setting, from runs of its own."""
    config = tiny("objective.dispersion=l1")
    (trial,) = tune(
        config, TuneConfig(learning_rates=(1e-2,), data_weights=(0.3,), seeds=(11, 12)), tmp_path
    ).trials
    runs = [config.with_overrides([f"seed={s}", "objective.data_weight=0.3"]) for s in (11, 12)]
    scores = []
    for model in fit_side_by_side(runs):
        x = Validation.of((model.config,), model.target, batched=False).x
        scores.append(-float(model.log_prob(x).double().mean()))
    assert trial.score == pytest.approx(sum(scores) / 2, rel=1e-6)
    # The control: one seed alone scores otherwise.
    assert trial.score != pytest.approx(scores[0], rel=1e-3)


def test_trials_that_train_one_by_one_fail_one_by_one(tiny):
    settings = [(1e-3, 0.1), (1e-3, 1.0)]
    assert trial_groups(tiny(), 0, 5, settings) == [TrialGroup("rung-1-rate-0.001", 1e-3, [0.1, 1.0], 5)]
    annealed = tiny().model_copy(update={"annealing": AnnealingConfig()})
    assert trial_groups(annealed, 0, 5, settings) == [
        TrialGroup("rung-1-rate-0.001-weight-0.1", 1e-3, [0.1], 5),
        TrialGroup("rung-1-rate-0.001-weight-1", 1e-3, [1.0], 5),
    ]
