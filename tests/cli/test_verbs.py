"""What each verb prints and writes when all is well."""

import json
import shlex
import shutil
from typing import get_args, get_type_hints

import numpy as np
import pytest
import torch

from boltzkit.cli.app import app
from boltzkit.ensemble import Ensemble


@pytest.fixture
def run_folder(uninterrupted, tmp_path):
    return shutil.copytree(uninterrupted.path, tmp_path / "run")


def next_command(out):
    """Return the words of the suggested command, which must be one."""
    (line,) = (line for line in out.split("\n") if line.startswith("Next: "))
    words = shlex.split(line.removeprefix("Next: "))
    app.parse_args(words[1:], print_error=False, exit_on_error=False)
    return words


def test_train_tells_what_it_does_and_what_comes_next(cli, tmp_path, tiny_settings):
    out = tmp_path / "a run"
    words = tiny_settings(training__steps=20, objective__dispersion="l1.5", objective__data_weight=0.3)
    ending = cli("train", "gmm", "--out", out, *words)
    assert ending.code == 0, ending.err
    first = "Training gmm on 500 samples of gmm: 0.3 × forward KL + 1 × LDR-L1.5, 20 steps, in"
    assert ending.out.startswith(f"{first} {out}.\n")
    for word in ("loss", "dispersion", "validation NLL", "evaluations"):
        assert word in ending.out
    assert next_command(ending.out) == ["boltzkit", "evaluate", str(out)]
    assert {path.name for path in out.iterdir()} == {
        ".lock", "config.json", "provenance.json", "metrics.jsonl", "checkpoints"
    }  # fmt: skip


@pytest.mark.parametrize("name", ["config.json", ""])
def test_a_run_is_a_recipe_for_another(cli, run_folder, tmp_path, name):
    ending = cli(
        "train", run_folder / name, "--out", tmp_path / "b", "--seed", "5", "--set", "training.steps=5"
    )
    assert ending.code == 0, ending.err
    first, second = (json.loads((path / "config.json").read_text()) for path in (run_folder, tmp_path / "b"))
    assert second == first | {"seed": 5, "training": first["training"] | {"steps": 5}}


def test_evaluate_prints_and_writes(cli, run_folder):
    ending = cli("evaluate", run_folder)
    assert (ending.code, ending.err) == (0, "")
    stored = json.loads((run_folder / "metrics.json").read_text())
    assert f"{stored['nll']['value']:.2f}" in ending.out
    assert f"Verdict: {stored['verdict']}." in ending.out
    assert "on 500 samples" in ending.out
    assert next_command(ending.out)[:3] == ["boltzkit", "sample", str(run_folder)]
    for name in ("energies", "log-weights"):
        assert (run_folder / f"{name}.png").read_bytes().startswith(b"\x89PNG")


def test_evaluate_takes_numbers_and_a_folder(cli, run_folder, tmp_path):
    words = ("--samples", "300", "--test-samples", "50", "--out", tmp_path / "judged")
    ending = cli("evaluate", run_folder, *words)
    assert ending.code == 0, ending.err
    stored = json.loads((tmp_path / "judged" / "metrics.json").read_text())
    assert (stored["reverse"]["n"], stored["nll"]["n"]) == (300, 50)
    assert (tmp_path / "judged" / "log-weights.png").is_file()
    assert "at least 2" in cli("evaluate", run_folder, "--samples", "1").refused()
    assert "--tica is for molecules" in cli("evaluate", run_folder, "--tica", tmp_path).refused()
    assert "folder" in cli("evaluate", run_folder, "--data", tmp_path).refused()


def test_evaluate_takes_test_data(cli, run_folder, tmp_path):
    data = np.random.default_rng(0).normal(size=(123, 2))
    np.save(tmp_path / "test.npy", data)
    assert "on 123 samples" in cli("evaluate", run_folder, "--data", tmp_path / "test.npy").out
    np.save(tmp_path / "test.npy", data[:, :1])
    assert "shape" in cli("evaluate", run_folder, "--data", tmp_path / "test.npy").refused()


def test_sample_draws_a_number(cli, run_folder, tmp_path):
    ending = cli("sample", run_folder, "--samples", "700", "--out", tmp_path / "e", "--seed", "2")
    assert (ending.code, ending.err) == (0, "")
    ensemble = Ensemble.load(tmp_path / "e")
    assert ensemble.n == 700
    assert f"{100 * ensemble.reweighting.ess_raw:.2f} %" in ending.out
    assert "log Z" in ending.out
    assert "Pareto k" in ending.out
    assert f"Verdict: {ensemble.verdict.level}." in ending.out
    assert all(reason in ending.out for reason in ensemble.verdict.reasons)
    cli("sample", run_folder, "--samples", "700", "--out", tmp_path / "other", "--seed", "3")
    assert not torch.equal(Ensemble.load(tmp_path / "other").x, ensemble.x)


def test_sample_draws_until_enough_are_effective(cli, run_folder, tmp_path):
    ending = cli("sample", run_folder, "--effective", "300", "--out", tmp_path / "e")
    assert ending.code == 0
    assert "Asked for" not in ending.out
    assert Ensemble.load(tmp_path / "e").weights.ess() >= 300
    short = cli("sample", run_folder, "--effective", "300", "--limit", "100", "--out", tmp_path / "e")
    assert short.code == 0
    assert "Asked for 300 effective samples" in short.out


def test_sample_ends_with_a_code_where_it_is_not_to_be_trusted(cli, run_folder, tmp_path):
    words = ("sample", run_folder, "--samples", "60", "--out", tmp_path / "e")
    assert cli(*words, "--strict").code == 3
    assert cli(*words).code == 0


def test_tune_ranks_and_says_how_to_use_the_best(cli, tmp_path, tiny_settings):
    words = tiny_settings(training__steps=20, objective__dispersion="l1")
    grid = ["--learning-rates", "1e-3,1e-2", "--data-weights", "0.1,0.3"]
    ending = cli("tune", "gmm", "--out", tmp_path / "t", *grid, *words)
    assert (ending.code, ending.err) == (0, "")
    lines = ending.out.split("\n")
    table = lines[next(i for i, line in enumerate(lines) if line.startswith("steps")) + 1 :][:4]
    scores = [float(line.split()[-1]) for line in table]
    assert scores == sorted(scores)
    chosen = next_command(ending.out)
    _, rate, weight, _ = table[0].split()
    assert f"training.learning_rate={rate}" in chosen
    assert f"objective.data_weight={weight}" in chosen
    assert "flow.hidden=[8,8]" in chosen


def test_reproduce_lists_its_experiments(cli):
    from boltzkit.reproduce import EXPERIMENTS

    lines = cli("reproduce", "--list").out.splitlines()
    assert [line.split()[0] for line in lines] == list(EXPERIMENTS)


def test_reproduce_asks_for_data_that_it_needs(cli, tmp_path):
    sentence = cli("reproduce", "aldp-unbiased", "--scale", "laptop").refused()
    assert sentence.startswith(
        "Give a dataset with --data: make one with 'boltzkit simulate alanine-dipeptide"
    )
    assert "--samples 125000 --set validation=0.2" in sentence
    sentence = cli("reproduce", "aldp-unbiased", "--data", tmp_path).refused()
    assert sentence.startswith(f"There is no dataset in {tmp_path}: make one with")


def test_the_scales_offered_are_the_scales_there_are(cli):
    from boltzkit.cli.reproduce import reproduce
    from boltzkit.reproduce import EXPERIMENTS

    known = {scale for entry in EXPERIMENTS.values() for scale in entry.scales}
    assert set(get_args(get_type_hints(reproduce)["scale"])) == known
    sentence = cli("reproduce", "gmm", "--scale", "no such").refused()
    assert all(name in sentence for name in known)
    assert cli("reproduce", "gmm", "--scale", "smoke").refused() == (
        "gmm has no scale 'smoke': choose demo or laptop or paper."
    )
