"""A run that was stopped, or ran out of disk, ends with the same bits as one that was not."""

import signal
import subprocess
import sys

import pytest
import torch

STEPS = 400


def same_bits(a, b):
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


def assert_same_run(run, uninterrupted):
    assert same_bits(run.tensors(STEPS), uninterrupted.tensors(STEPS))
    assert run.metrics() == uninterrupted.metrics()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_saves_and_the_same_command_finishes(
    number, begin, command, tmp_path, tiny_settings, uninterrupted, run_at
):
    words = ["train", "gmm", "--out", tmp_path / "a", *tiny_settings()]
    process = begin(*words)
    next(line for line in process.stdout if line.startswith("step "))
    process.send_signal(number)
    _, err = process.communicate(timeout=300)
    run = run_at(tmp_path / "a")
    stopped_at = run.steps()[-1]
    assert process.returncode == 130
    assert err == (
        f"boltzkit: Stopped at step {stopped_at} of {STEPS} and saved in {run.path}; "
        "the same command goes on from there.\n"
    )
    assert 0 < stopped_at < STEPS
    # The control: at this step the weights are not yet the final ones.
    assert not same_bits(run.tensors(stopped_at), uninterrupted.tensors(STEPS))
    ending = command(*words)
    assert (ending.code, ending.err) == (0, "")
    assert f"going on from step {stopped_at}." in ending.out
    assert_same_run(run, uninterrupted)


LIMITED = """
import resource, sys
limit = int(sys.argv[1])
resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
from boltzkit.cli import main
sys.exit(main(sys.argv[2:]))
"""


@pytest.mark.parametrize(("limit", "breaks"), [(8_000, "state.safetensors"), (14_000, "metrics.jsonl")])
def test_a_full_disk_loses_nothing(
    limit, breaks, cli, command, tmp_path, tiny_settings, uninterrupted, run_at
):
    """No file may grow beyond a limit that a checkpoint exceeds, or that only the metrics reach later."""
    words = [str(word) for word in ("train", "gmm", "--out", tmp_path / "a", *tiny_settings())]
    answer = subprocess.run(
        [sys.executable, "-B", "-c", LIMITED, str(limit), *words], capture_output=True, text=True, check=False
    )
    run = run_at(tmp_path / "a")
    assert answer.returncode == 2, answer.stderr
    assert answer.stderr.startswith("boltzkit: No space left to write ")
    assert breaks in answer.stderr
    assert answer.stderr.count("\n") == 1
    assert not list(tmp_path.rglob("*.partial"))
    saved = run.steps()
    assert (saved == []) == (breaks == "state.safetensors")
    ending = command(*words)
    assert ending.code == 0, ending.err
    assert (f"going on from step {saved[-1]}." if saved else "Training gmm") in ending.out
    assert_same_run(run, uninterrupted)


def test_a_finished_run_says_so(cli, uninterrupted, tiny_settings):
    before = uninterrupted.metrics()
    ending = cli("train", "gmm", "--out", uninterrupted.path, *tiny_settings())
    assert (ending.code, ending.err) == (0, "")
    assert f"{uninterrupted.path} is finished: 400 of 400 steps." in ending.out
    assert "Training" not in ending.out
    assert f"Next: boltzkit evaluate {uninterrupted.path}" in ending.out
    assert uninterrupted.metrics() == before


def test_other_settings_in_the_same_folder_are_refused(cli, uninterrupted, tiny_settings):
    ending = cli("train", "gmm", "--out", uninterrupted.path, *tiny_settings(), "--seed", "1")
    assert "holds a run with other settings" in ending.refused()
    assert ending.out == ""
