"""Trials on disk: a tuning goes on where it stopped, nothing is done twice, other settings are refused."""

import json

import pytest

from boltzkit.errors import Interrupted, UserError
from boltzkit.method import TuneConfig, trial_group, tune

GRID = TuneConfig(learning_rates=(1e-6, 1e-2), data_weights=(0.1, 1.0), seeds=(11, 12))


def no_training(*arguments: object) -> None:
    raise AssertionError("a finished group was trained again")


def test_a_finished_tuning_is_read_and_not_repeated(tiny, tmp_path, monkeypatch):
    options = GRID.model_copy(update={"rungs": (0.3, 1.0)})
    first = tune(tiny(), options, tmp_path)
    monkeypatch.setattr(trial_group, "fit_side_by_side", no_training)
    assert tune(tiny(), options, tmp_path) == first
    # The control: the guard does catch a training.
    with pytest.raises(AssertionError, match="trained again"):
        tune(tiny(), options, tmp_path / "elsewhere")


def test_what_a_kill_left_of_a_finished_group_is_cleared_away(tiny, tmp_path):
    tune(tiny(), GRID, tmp_path)
    left = tmp_path / "rung-1-rate-0.01"
    left.mkdir()
    (left / "config.json").touch()
    tune(tiny(), GRID, tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == [".lock", "trials.json"]


def test_a_stopped_tuning_goes_on_with_the_next_group(tiny, tmp_path, monkeypatch):
    rates = []
    real = trial_group.fit_side_by_side

    def stopped_at_the_second(runs, *rest):
        rates.append(runs[0].training.learning_rate)
        if len(rates) == 2:
            raise Interrupted("stop")
        return real(runs, *rest)

    monkeypatch.setattr(trial_group, "fit_side_by_side", stopped_at_the_second)
    with pytest.raises(Interrupted):
        tune(tiny(), GRID, tmp_path / "a")
    assert tune(tiny(), GRID, tmp_path / "a") == tune(tiny(), GRID, tmp_path / "b")
    assert rates == [1e-6, 1e-2, 1e-2, 1e-6, 1e-2]


def test_a_tuning_begun_before_a_setting_existed_goes_on(tiny, tmp_path, monkeypatch):
    first = tune(tiny(), GRID, tmp_path)
    content = json.loads((tmp_path / "trials.json").read_text())
    del content["question"]["config"]["training"]["clip"]
    (tmp_path / "trials.json").write_text(json.dumps(content))
    monkeypatch.setattr(trial_group, "fit_side_by_side", None)
    assert tune(tiny(), GRID, tmp_path) == first


@pytest.mark.parametrize(
    ("assignments", "changes"), [([], {"seeds": (13,)}), ([], {"keep": 0.5}), (["training.steps=11"], {})]
)
def test_other_settings_in_the_same_folder_are_refused(assignments, changes, tiny, tmp_path):
    tune(tiny(), GRID, tmp_path)
    before = (tmp_path / "trials.json").read_bytes()
    with pytest.raises(UserError, match="holds a tuning with other settings: choose another folder"):
        tune(tiny(*assignments), GRID.model_copy(update=changes), tmp_path)
    assert (tmp_path / "trials.json").read_bytes() == before
