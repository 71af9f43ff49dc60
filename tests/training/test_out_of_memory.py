"""Where memory runs out the batch is taken in parts, which is recorded and changes nothing but rounding."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import boltzkit
from boltzkit.errors import UserError
from boltzkit.flow import RealNVPConfig, build_realnvp
from boltzkit.method import RunConfig, fit, load
from boltzkit.objective import ForwardKL, LogDispersion, Objective
from boltzkit.training import TrainingConfig, TrainState, train_step
from boltzkit.training.parts import ran_out_of_memory

SETTINGS = [
    "flow.layers=4", "flow.hidden=[64]", "data.samples=150000", "data.validation_samples=20",
    "objective.dispersion=l1", "objective.warm_up=1", "training.steps=3", "training.log_every=1",
    "training.batch=150000",
]  # fmt: skip
DRIVER = """
import json, resource, sys
from pathlib import Path
import torch
torch.set_num_threads(1)
from boltzkit.method import RunConfig, fit
config = RunConfig().with_overrides(json.loads(sys.argv[1]))
pages = int(Path("/proc/self/statm").read_text().split()[0])
limit = pages * resource.getpagesize() + (200 << 20)
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
fit(config, Path(sys.argv[2]))
"""


@pytest.mark.skipif(not Path("/proc/self/statm").is_file(), reason="memory is bounded through Linux's /proc")
def test_a_process_short_of_memory_trains_to_the_same_weights(tmp_path):
    environment = os.environ | {"PYTHONPATH": str(Path(boltzkit.__file__).parents[1])}
    command = [sys.executable, "-c", DRIVER, json.dumps(SETTINGS), str(tmp_path / "short")]
    subprocess.run(command, check=True, env=environment)
    lines = [json.loads(line) for line in (tmp_path / "short" / "metrics.jsonl").read_text().splitlines()]
    assert lines[-1]["parts"] > 1
    assert lines[-1]["failed_steps"] == 0
    plenty, _ = fit(RunConfig().with_overrides(SETTINGS), tmp_path / "plenty")
    assert "parts" not in (tmp_path / "plenty" / "metrics.jsonl").read_text()
    x = torch.randn(100, 2, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(load(tmp_path / "short").log_prob(x), plenty.log_prob(x), rtol=1e-3, atol=1e-3)


def bounded(flow, room):
    """Let a flow run out of memory above a number of samples."""
    real = flow.log_prob

    def log_prob(x):
        if len(x) > room:
            raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 1 bytes.")
        return real(x)

    flow.log_prob = log_prob
    return flow


def step(flow, batch):
    return train_step(TrainState.start(flow, CONFIG), HYBRID, CONFIG, batch)


CONFIG = TrainingConfig(steps=20, learning_rate=0.01)
HYBRID = Objective(ForwardKL(), LogDispersion(1.0))
ONE_LAYER = RealNVPConfig(layers=2, hidden=(8,))


def test_parts_double_until_they_fit(batches):
    batch = batches()(0)
    whole, expected = step(build_realnvp(ONE_LAYER, 2, (0,), batched=False), batch)
    state, info = step(bounded(build_realnvp(ONE_LAYER, 2, (0,), batched=False), 5), batch)
    assert state.parts == 4
    torch.testing.assert_close(info.loss.total, expected.loss.total)
    for found, wanted in zip(state.flow.parameters(), whole.flow.parameters(), strict=True):
        torch.testing.assert_close(found, wanted)
    # It stays so: running out of memory in every step would waste half of them.
    state, _ = train_step(state, HYBRID, CONFIG, batch)
    assert state.parts == 4


@pytest.mark.parametrize(
    ("hidden", "room", "advice"),
    [((8,), 0, "even one sample is too much"), ((8, 8), 5, "lower training.batch")],
)
def test_what_cannot_be_divided_is_said(hidden, room, advice, batches):
    flow = bounded(build_realnvp(RealNVPConfig(layers=2, hidden=hidden), 2, (0,), batched=False), room)
    with pytest.raises(UserError, match=f"Memory ran out in step 1, with a batch of 16: {advice}"):
        step(flow, batches()(0))


def test_other_errors_are_no_lack_of_memory(batches):
    flow = build_realnvp(ONE_LAYER, 2, (0,), batched=False)
    flow.log_prob = lambda x: (_ for _ in ()).throw(RuntimeError("shapes differ"))
    with pytest.raises(RuntimeError, match="shapes differ"):
        step(flow, batches()(0))
    assert ran_out_of_memory(torch.OutOfMemoryError("CUDA out of memory."))
    assert ran_out_of_memory(MemoryError())
    assert not ran_out_of_memory(ValueError("allocate memory"))
