"""kill -9 at random moments, again and again; the same command goes on and ends at the same last bit."""

import json
import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

import boltzkit
from boltzkit.training import RunFolder, checkpoints

KILLS = 10
STEPS = 800
DRIVER = f"""
import sys
from pathlib import Path
import torch
torch.set_num_threads(1)
from boltzkit.method import RunConfig, fit
for seed, out in zip(sys.argv[1::2], sys.argv[2::2]):
    config = RunConfig().with_overrides([
        "flow.layers=2", "flow.hidden=[8, 8]", "data.samples=40", "data.validation_samples=20",
        "objective.dispersion=l1", "objective.warm_up=200", "objective.centre=learned",
        "training.steps={STEPS}", "training.batch=16", "training.ema=0.99", "training.clip=10",
        "training.log_every=5", "training.validate_every=100", "training.checkpoint_every=20",
        f"seed={{seed}}",
    ])
    fit(config, Path(out))
"""


def start(*arguments: str) -> subprocess.Popen:
    environment = os.environ | {
        "PYTHONPATH": str(Path(boltzkit.__file__).parents[1]),
        "OMP_NUM_THREADS": "1",
    }
    return subprocess.Popen([sys.executable, "-W", "error", "-c", DRIVER, *arguments], env=environment)


def last_step(folder: Path) -> int:
    """The step of the last complete line of metrics.jsonl, 0 before there is one."""
    path = folder / "metrics.jsonl"
    lines = path.read_bytes().split(b"\n")[:-1] if path.is_file() else []
    return json.loads(lines[-1])["step"] if lines else 0


def kill_past(step: int, delay: float, folder: Path) -> int:
    """Start the run, kill it a moment after it has passed a step; return the step it had logged by then."""
    process = start("0", str(folder))
    try:
        while last_step(folder) < step and process.poll() is None:
            time.sleep(0.001)
        time.sleep(delay)
    finally:
        process.kill()
    assert process.wait() == -9, "the run ended before it could be killed"
    return last_step(folder)


def final(folder: Path) -> bytes:
    (newest,) = checkpoints(folder / "checkpoints")[-1:]
    assert newest.name == f"step-{STEPS:08d}"
    return (newest / "state.safetensors").read_bytes()


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, Path, list[int]]:
    """An uninterrupted run, one of another seed, one killed many times, and where it was killed."""
    root = tmp_path_factory.mktemp("kill")
    whole, other, killed = root / "whole", root / "other", root / "killed"
    undisturbed = start("0", str(whole), "1", str(other))
    draw = random.Random(20)
    # Milestones and not times: kills spread over the run on a fast machine and on a slow one.
    hits = []
    for i in range(KILLS):
        milestone = int(0.75 * STEPS * (i + draw.random()) / KILLS)
        hits.append(kill_past(milestone, draw.uniform(0.0, 0.03), killed))
    assert start("0", str(killed)).wait() == 0
    assert undisturbed.wait() == 0
    return whole, other, killed, hits


def test_kills_hit_in_the_middle(folders):
    *_, hits = folders
    assert len(hits) >= 10
    assert all(step < STEPS for step in hits)
    assert hits == sorted(hits)
    assert len(set(hits)) >= 8


def test_the_end_is_the_same_to_the_last_bit(folders):
    whole, other, killed, _ = folders
    assert final(killed) == final(whole)
    # Control: the comparison sees a run of another seed.
    assert final(other) != final(whole)


def test_metrics_are_whole_and_the_same(folders):
    whole, other, killed, _ = folders
    lines = [
        [{k: v for k, v in line.items() if k != "seconds"} for line in RunFolder(folder).metrics()]
        for folder in (whole, killed, other)
    ]
    assert (killed / "metrics.jsonl").read_bytes().endswith(b"}\n")
    assert [line["step"] for line in lines[1]] == list(range(5, STEPS + 1, 5))
    assert lines[0] == lines[1]
    assert lines[0] != lines[2]


def test_nothing_is_left_lying_about(folders):
    whole, _, killed, _ = folders
    names = [sorted(str(p.relative_to(folder)) for p in folder.rglob("*")) for folder in (whole, killed)]
    assert names[0] == names[1]
