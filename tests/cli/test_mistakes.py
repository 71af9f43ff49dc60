"""Whatever a person gets wrong is told in one sentence, with exit code 2."""

import json

import numpy as np
import pytest

from boltzkit.cli import main
from boltzkit.method import RECIPES


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["trian"], "There is no command 'trian'. Did you mean 'train'?"),
        (["--hlp"], "There is no option '--hlp'. Did you mean '--help'?"),
        (["train", "gmm", "--ot", "a"], "train has no option '--ot'. Did you mean '--out'?"),
        (["train", "gmm", "--zzz"],
         "train has no option '--zzz'. Known: --evaluations, --help, --list, --out, --seed, --set, --show."),
        (["train", "gmm", "--set"], "train needs a value for --set: see boltzkit train --help."),
        (["train", "gmm", "--set", "seed=1", "seed=2"],
         "train has no use for 'seed=2': write --set before each setting."),
        (["train", "gmn", "--out", "a"], "There is no recipe 'gmn'. Did you mean 'gmm'?"),
        (["train", "gmm"], "Say where the run shall live: --out runs/NAME."),
        (["train", "--out", "a"],
         f"Name a recipe ({', '.join(RECIPES)}) or the config.json of another run."),
        (["train", "nowhere/config.json", "--out", "a"], "There is no file nowhere/config.json."),
        (["sample", "--out", "a"], "sample needs a value for RUN: see boltzkit sample --help."),
        (["sample", "a", "--samples", "10"], "sample needs a value for --out: see boltzkit sample --help."),
        (["sample", "a", "--out", "b"], "Say how many: either --samples N or --effective N."),
        (["sample", "a", "--out", "b", "--samples", "9", "--effective", "9"],
         "Say how many: either --samples N or --effective N."),
        (["sample", "a", "--out", "b", "--samples", "9"], "There is no run folder a. Known: alanine-dipeptide."),
        (["evaluate", "alanine-dipeptide"],
         "The flow of alanine-dipeptide comes with the package: say where the results shall go with --out FOLDER."),
        (["sample", "a", "--out", "b", "--effective", "nan"],
         "--effective takes a positive number of samples, not nan."),
        (["sample", "a", "--out", "b", "--effective", "inf"],
         "--effective takes a positive number of samples, not inf."),
        (["train", "gmm", "--evaluations", "1e5"], "--evaluations is for runs without data: cmt, ta-bg or fab."),
        (["train", "cmt", "--evaluations", "1e5", "--set", "annealing.evaluations=3"],
         "--evaluations and --set annealing.evaluations say the same: give one of them."),
        (["train", "cmt", "--evaluations", "0.5"], "--evaluations takes a whole number such as 1e6, not 0.5."),
        (["evaluate", "a"], "There is no run folder a. Known: alanine-dipeptide."),
        (
            ["evaluate", "alanine-dipeptide", "--wasserstein", "9000", "--test-samples", "10000"],
            "--wasserstein 9000 needs twice as many test samples, not 10000: add --test-samples 18000.",
        ),
        (["evaluate", "a", "--data", "b.npy"], "There is no data file or folder b.npy: check --data."),
        (["tune", "gmm", "--out", "a", "--learning-rates", "fast"],
         "--learning-rates takes numbers with commas between, for example 0.1,0.3, not 'fast'."),
        (["reproduce", "gmn"], "There is no experiment 'gmn'. Did you mean 'gmm'?"),
        (["reproduce", "gmm", "--workers", "0"], "At least one worker must run, not 0: set --workers 1."),
    ],
)  # fmt: skip
def test_a_mistake_is_one_sentence(cli, tmp_path, monkeypatch, words, sentence):
    monkeypatch.chdir(tmp_path)
    assert cli(*words).refused() == sentence
    assert list(tmp_path.iterdir()) == []


def test_a_mistyped_setting_in_a_process_of_its_own(command, tmp_path):
    ending = command("train", "gmm", "--out", tmp_path / "a", "--set", "objective.dispersio=l1")
    assert "Did you mean 'dispersion'?" in ending.refused()
    assert not (tmp_path / "a").exists()


def test_a_wrong_value_names_the_option(cli):
    sentence = cli("train", "gmm", "--seed", "soon").refused()
    assert "--seed" in sentence
    assert "soon" in sentence


def test_a_wrong_value_names_the_setting(cli, tmp_path):
    sentence = cli("train", "gmm", "--out", tmp_path / "a", "--set", "training.steps=many").refused()
    assert "training.steps" in sentence
    assert "many" in sentence


def test_a_config_file_with_an_unknown_setting_is_refused(cli, tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({"training": {"stesp": 5}}))
    sentence = cli("train", tmp_path / "config.json", "--out", tmp_path / "a").refused()
    assert sentence.endswith("there is no setting 'training.stesp'. Did you mean 'steps'?")


def test_missing_data(cli, tmp_path, tiny_settings):
    missing = tmp_path / "missing.npy"
    sentence = cli("train", "gmm", "--out", tmp_path / "a", *tiny_settings(data__path=missing)).refused()
    assert f"There is no data file {missing}" in sentence
    assert not (tmp_path / "a").exists()


def test_nan_in_the_data(cli, tmp_path, tiny_settings):
    data = np.random.default_rng(0).normal(size=(60, 2))
    data[17, 1] = np.nan
    np.save(tmp_path / "data.npy", data)
    words = tiny_settings(data__path=tmp_path / "data.npy", training__steps=5)
    sentence = cli("train", "gmm", "--out", tmp_path / "a", *words).refused()
    assert "row 17" in sentence
    assert not (tmp_path / "a").exists()
    # The same data without the NaN is fine: it was the NaN that was refused.
    np.save(tmp_path / "data.npy", np.nan_to_num(data))
    assert cli("train", "gmm", "--out", tmp_path / "a", *words).code == 0


def test_a_folder_that_is_a_file(cli, tmp_path, tiny_settings):
    (tmp_path / "file").write_text("content")
    for out in (tmp_path / "file", tmp_path / "file" / "below"):
        sentence = cli("train", "gmm", "--out", out, *tiny_settings(training__steps=5)).refused()
        assert str(tmp_path / "file") in sentence
    assert (tmp_path / "file").read_text() == "content"


def test_a_bug_keeps_its_traceback(monkeypatch):
    monkeypatch.setattr("boltzkit.cli.doctor._versions", lambda: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        main(["doctor"])


def test_ctrl_c_outside_of_training_is_quiet(cli, monkeypatch):
    def interrupt():
        raise KeyboardInterrupt

    monkeypatch.setattr("boltzkit.cli.doctor._versions", interrupt)
    ending = cli("doctor")
    assert (ending.code, ending.err) == (130, "boltzkit: Stopped.\n")
