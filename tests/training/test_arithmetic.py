"""A training computes as its settings say, and goes on bit for bit."""

import pytest
import torch

from boltzkit.errors import Interrupted
from boltzkit.method import DataConfig, RunConfig, fit
from boltzkit.training import TrainingConfig


def test_bfloat16_gradients_are_taken_and_resumed(tmp_path, monkeypatch):
    monkeypatch.setattr("boltzkit.flow.short_products.short_products_are_fast", lambda: True)

    def config(gradients: str) -> RunConfig:
        training = TrainingConfig(steps=8, batch=16, log_every=1, checkpoint_every=2, gradients=gradients)
        return RunConfig(
            data=DataConfig(samples=40, validation_samples=20), training=training
        ).with_overrides(["flow.kind=spline", "flow.pairs=1", "flow.hidden=[8, 8]"])

    def stop(line: dict[str, object], steps: int) -> None:
        if line["step"] == 5:
            raise Interrupted("here")

    whole, _ = fit(config("bfloat16"), tmp_path / "whole")
    with pytest.raises(Interrupted):
        fit(config("bfloat16"), tmp_path / "stopped", stop)
    resumed, _ = fit(config("bfloat16"), tmp_path / "stopped")
    plain, _ = fit(config("float32"), tmp_path / "plain")
    ours, theirs = resumed.flow.state_dict(), whole.flow.state_dict()
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)
    # Control: float32 leads elsewhere.
    assert not all(torch.equal(plain.flow.state_dict()[name], theirs[name]) for name in theirs)
