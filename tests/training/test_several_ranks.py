"""Two ranks of torchrun do what one process does: losses, gradients, weights, buffers, stops and restarts."""

import importlib.util
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
import safetensors.torch
import torch

import boltzkit
from boltzkit.training import RunFolder, checkpoints, read_checkpoint

DRIVER = Path(__file__).with_name("several_ranks.py")
spec = importlib.util.spec_from_file_location("several_ranks", DRIVER)
assert spec is not None
assert spec.loader is not None
alone = importlib.util.module_from_spec(spec)
spec.loader.exec_module(alone)

EXACT = 1e-10
AFTER_MANY_STEPS = 1e-6
SINGLE = 2e-5


def torchrun(what: str, out: Path, *options: str) -> subprocess.Popen[str]:
    environment = os.environ | {
        "PYTHONPATH": str(Path(boltzkit.__file__).parents[1]),
        "OMP_NUM_THREADS": "1",
        "BOLTZKIT_RANK_TIMEOUT": "120",
    }
    launch = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--standalone",
        "--nproc-per-node",
        "2",
        *options,
    ]
    return subprocess.Popen(
        [*launch, str(DRIVER), what, str(out)],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.fixture(scope="module")
def together(tmp_path_factory):
    """What two ranks found, in a folder; where one process stopped a training before, they went on with it.

    One of them was killed with -9 at its 25th step, and torchrun started both again.
    """
    out = tmp_path_factory.mktemp("ranks")
    step, _ = alone.go_on(out / "resumed", stop_at=20)
    assert step == 21
    ended = torchrun("all", out, "--max-restarts", "2")
    _, said = ended.communicate(timeout=300)
    assert ended.returncode == 0, said
    assert "exitcode: -9" in said
    return out


def assert_equal(ours: dict, theirs: dict, rtol: float, atol: float = 1e-12) -> None:
    assert ours.keys() == theirs.keys()
    for name in ours:
        # Without a message of its own torch does not say which tensor it was.
        torch.testing.assert_close(
            theirs[name], ours[name], rtol=rtol, atol=atol, msg=lambda text, name=name: f"{name}: {text}"
        )


@pytest.mark.parametrize("name", list(alone.CASES))
def test_two_ranks_find_what_one_finds(together, name):
    theirs = safetensors.torch.load_file(together / f"{name}.safetensors")
    ours = {key: value.contiguous() for key, value in alone.CASES[name]().items()}
    if name in ("float32", "importance"):
        assert_equal(ours, theirs, SINGLE, SINGLE)
        return
    late = {key for key in ours if key.startswith(("end", "modules", "memory", "figure"))}
    assert_equal({k: ours[k] for k in late}, {k: theirs[k] for k in late}, AFTER_MANY_STEPS, 1e-8)
    first = ours.keys() - late
    assert_equal({k: ours[k] for k in first}, {k: theirs[k] for k in first}, EXACT)


def test_evaluations_of_all_ranks_are_counted(together):
    counts = {
        name: safetensors.torch.load_file(together / f"{name}.safetensors")["evaluations"].tolist()
        for name in ("reverse_kl", "reverse_kl in parts", "cmt", "fab", "importance")
    }
    assert counts == {
        "reverse_kl": 165,
        "reverse_kl in parts": 165,
        "cmt": 1201,
        "fab": 1845,
        "importance": [10_001, 10_001],
    }


def test_the_comparison_sees_a_centre_of_each_ranks_own(together):
    """Control: with the means of each half in the place of those of the batch, the gradient is another one."""
    theirs = safetensors.torch.load_file(together / "ldr.safetensors")
    problem = alone.Objective(alone.ForwardKL(), alone.LogDispersion(p=1.0), 0.7)
    batch = alone.EpochBatches(alone.data(200, "training"), 33, (0,))(0)
    model = alone.flow()
    for rows in (slice(0, 17), slice(17, 33)):
        share = (rows.stop - rows.start) / 33
        (share * problem(model, batch.part(rows), step=0).total).backward()
    gradients = {f"gradient flow.{name}": p.grad for name, p in model.named_parameters()}
    worst = max(float((theirs[name] - value).abs().max()) for name, value in gradients.items())
    assert worst > 1e-3


def test_a_run_goes_from_one_rank_to_two_and_back(together):
    # The last rank was asked to stop; both did, at the same step.
    said = [(together / f"stopped-{rank}").read_text().splitlines() for rank in (0, 1)]
    assert [lines[0] for lines in said] == ["41", "41"]
    assert "ranks was 1 and is now 2: the run goes on, but not bit for bit" in said[0]
    step, remarks = alone.go_on(together / "resumed")
    assert step == 60
    assert not any("ranks" in remark for remark in remarks)
    alone.go_on(together / "at once")
    ours, theirs = (
        read_checkpoint(checkpoints(together / name / "checkpoints")[-1])[0]
        for name in ("at once", "resumed")
    )
    assert_equal(ours, theirs, AFTER_MANY_STEPS, 1e-9)


def test_a_killed_rank_is_restarted_and_nothing_is_lost(together):
    whole, mended = (checkpoints(together / name / "checkpoints")[-1] for name in ("whole", "killed"))
    assert mended.name == "step-00000040"
    assert (whole / "state.safetensors").read_bytes() == (mended / "state.safetensors").read_bytes()
    lines = [
        [{k: v for k, v in line.items() if k != "seconds"} for line in RunFolder(path).metrics()]
        for path in (together / "whole", together / "killed")
    ]
    assert [line["step"] for line in lines[0]] == [5, 10, 15, 20, 25, 30, 35, 40]
    assert lines[0] == lines[1]


def test_an_error_of_one_rank_ends_all_with_one_sentence(tmp_path):
    start = time.monotonic()
    ended = torchrun("error", tmp_path)
    _, said = ended.communicate(timeout=100)
    assert ended.returncode != 0
    assert [line for line in said.splitlines() if line.startswith("boltzkit:")] == [
        "boltzkit: A sentence of the first."
    ]
    assert time.monotonic() - start < 100
