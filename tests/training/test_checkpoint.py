"""Checkpoints: bit-exact round trips; what is damaged is refused in one sentence."""

import json
import shutil
from pathlib import Path

import pytest
import torch

from boltzkit.errors import UserError
from boltzkit.method import RunConfig, fit, load
from boltzkit.objective import ForwardKL, LogDispersion, Objective
from boltzkit.training import (
    LearnedCentre,
    TrainingConfig,
    TrainState,
    checkpoints,
    read_checkpoint,
    save_checkpoint,
    save_model,
    train_step,
)
from boltzkit.training.checkpoint import load_checkpoint, set_damaged_aside

CONFIG = TrainingConfig(steps=20, learning_rate=0.01, ema=0.9)
HYBRID = Objective(ForwardKL(), LogDispersion(1.0))


@pytest.fixture(params=["one", "replicas"])
def parts(request, tiny_flow, batches):
    """A function that starts a training, and its batches."""
    if request.param == "one":
        return lambda: TrainState.start(tiny_flow(0), CONFIG, LearnedCentre()), batches()
    return lambda: TrainState.start(tiny_flow(0, 1), CONFIG, LearnedCentre((2,))), batches(2)


def run(state, source, until):
    while state.step < until:
        state, _ = train_step(state, HYBRID, CONFIG, source(state.step))
    return state


def assert_equal(one, two):
    assert set(one) == set(two)
    for name, value in one.items():
        assert value.dtype == two[name].dtype
        assert torch.equal(value, two[name]), name


def test_round_trip_is_bit_exact(parts, tmp_path):
    start, source = parts
    state = run(start(), source, 5)
    state.evaluations = 1234
    path = save_checkpoint(tmp_path, state)
    assert sorted(file.name for file in path.iterdir()) == ["state.json", "state.safetensors"]
    other = start()
    assert load_checkpoint(tmp_path, other)
    assert (other.step, other.evaluations) == (5, 1234)
    tensors, loaded = state.tensors(), other.tensors()
    assert {name.rsplit(".")[-1] for name in tensors} >= {"exp_avg", "exp_avg_sq", "step", "running_var"}
    assert any(name.startswith("ema.") for name in tensors)
    assert_equal(tensors, loaded)
    # What follows is the same too, to the last bit.
    assert_equal(run(state, source, 9).tensors(), run(other, source, 9).tensors())


def test_the_newest_two_are_kept(parts, tmp_path):
    start, source = parts
    state = start()
    assert checkpoints(tmp_path) == []
    assert not load_checkpoint(tmp_path, state)
    for until in (0, 2, 4, 6):
        save_checkpoint(tmp_path, run(state, source, until))
    assert [path.name for path in checkpoints(tmp_path)] == ["step-00000004", "step-00000006"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["step-00000004", "step-00000006"]


def test_state_before_the_first_step_can_be_saved(parts, tmp_path):
    start, source = parts
    save_checkpoint(tmp_path, start())
    other = start()
    assert load_checkpoint(tmp_path, other)
    assert_equal(run(other, source, 3).tensors(), run(start(), source, 3).tensors())


def flip_a_bit(path):
    content = bytearray((path / "state.safetensors").read_bytes())
    content[-5] ^= 1
    (path / "state.safetensors").write_bytes(content)


def truncate(path):
    content = (path / "state.safetensors").read_bytes()
    (path / "state.safetensors").write_bytes(content[: len(content) // 2])


def lose_tensors(path):
    (path / "state.safetensors").unlink()


def cut_json(path):
    (path / "state.json").write_text((path / "state.json").read_text()[:20])


def forget_the_sum(path):
    meta = json.loads((path / "state.json").read_text())
    del meta["sha256"]
    (path / "state.json").write_text(json.dumps(meta))


def change_format(path):
    meta = json.loads((path / "state.json").read_text())
    (path / "state.json").write_text(json.dumps(meta | {"format": 99}))


@pytest.mark.parametrize(
    "damage", [flip_a_bit, truncate, lose_tensors, cut_json, forget_the_sum, change_format]
)
def test_damage_is_refused(damage, tiny_flow, tmp_path):
    path = save_checkpoint(tmp_path, TrainState.start(tiny_flow(0), CONFIG))
    read_checkpoint(path)
    damage(path)
    with pytest.raises(UserError, match="step-00000000"):
        read_checkpoint(path)
    with pytest.raises(UserError, match="step-00000000"):
        load_checkpoint(tmp_path, TrainState.start(tiny_flow(0), CONFIG))


def test_what_a_kill_left_half_written_is_not_a_checkpoint(tiny_flow, tmp_path):
    state = TrainState.start(tiny_flow(0), CONFIG)
    good = save_checkpoint(tmp_path, state)
    state.step = 7
    partial = tmp_path / ".step-00000007.partial"
    partial.mkdir()
    (partial / "state.safetensors").write_bytes(b"half")
    assert checkpoints(tmp_path) == [good]
    # The next attempt at the same step clears it away.
    save_checkpoint(tmp_path, state)
    assert [path.name for path in sorted(tmp_path.iterdir())] == ["step-00000000", "step-00000007"]


def test_a_model_alone_is_small_and_cannot_be_trained_on(tiny_flow, tmp_path):
    flow = tiny_flow(0)
    state = TrainState.start(flow, TrainingConfig())
    save_model(tmp_path, flow.state_dict(), step=7, evaluations=3)
    (path,) = checkpoints(tmp_path)
    tensors, meta = read_checkpoint(path)
    assert (meta["step"], meta["evaluations"], meta["kind"]) == (7, 3, "model")
    assert {name.removeprefix("modules.flow.") for name in tensors} == set(flow.state_dict())
    with pytest.raises(UserError, match="holds a model without its optimiser"):
        load_checkpoint(tmp_path, state)


def raise_the_step(path):
    meta = json.loads((path / "state.json").read_text())
    (path / "state.json").write_text(json.dumps(meta | {"step": meta["step"] + 1}))


def test_the_checksum_covers_the_step_too(tiny_flow, tmp_path):
    path = save_checkpoint(tmp_path, TrainState.start(tiny_flow(0), CONFIG))
    raise_the_step(path)
    with pytest.raises(UserError, match="is damaged"):
        read_checkpoint(path)


def test_damaged_checkpoints_are_set_aside_where_an_older_one_is_sound(tiny_flow, tmp_path):
    state = TrainState.start(tiny_flow(0), CONFIG)
    for state.step in (3, 4, 5):
        save_checkpoint(tmp_path, state, keep=3)
    assert set_damaged_aside(tmp_path) == []
    for name in ("step-00000005", "step-00000004"):
        flip_a_bit(tmp_path / name)
    said = set_damaged_aside(tmp_path)
    assert len(said) == 2
    assert all("set aside, the run goes on from step-00000003" in sentence for sentence in said)
    assert [path.name for path in checkpoints(tmp_path)] == ["step-00000003"]
    assert (tmp_path / "damaged-step-00000005" / "state.safetensors").is_file()
    # Without a sound one nothing is touched, and reading says what is wrong.
    flip_a_bit(tmp_path / "step-00000003")
    assert set_damaged_aside(tmp_path) == []
    with pytest.raises(UserError, match="step-00000003 is damaged"):
        load_checkpoint(tmp_path, state)


def test_a_run_of_the_first_format_loads_and_goes_on(tmp_path):
    old = Path(__file__).with_name("format-1")
    assert json.loads((old / "checkpoints/step-00000020/state.json").read_text())["format"] == 1
    shutil.copytree(old, tmp_path / "run")
    assert load(tmp_path / "run").step == 20
    config = RunConfig.parse(json.loads((old / "config.json").read_text()))
    model, _ = fit(config, tmp_path / "run")
    whole, _ = fit(config, tmp_path / "whole")
    assert model.step == 40
    x = torch.randn(100, 2, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(model.log_prob(x), whole.log_prob(x), rtol=1e-3, atol=1e-3)
    # Control: the weights that the old checkpoint holds are others.
    assert (load(old).log_prob(x) - whole.log_prob(x)).abs().max() > 1e-2
    # A damaged one of the old format is refused like any other.
    shutil.copytree(old / "checkpoints/step-00000020", tmp_path / "old")
    flip_a_bit(tmp_path / "old")
    with pytest.raises(UserError, match="is damaged"):
        read_checkpoint(tmp_path / "old")


def test_averages_go_back_to_the_device_they_were_on(tiny_flow):
    """A checkpoint is read on the CPU; the device without memory stands for any other one."""
    state = TrainState.start(tiny_flow(0), CONFIG)
    stored = state.tensors()
    state.ema = {name: value.to("meta") for name, value in state.ema.items()}
    state.load(stored, 0, 0)
    assert {value.device.type for value in state.ema.values()} == {"meta"}
