"""Gradients by bfloat16 products: the same values, nearly the same gradients, trained and resumed."""

import pytest
import torch

from boltzkit.errors import Interrupted
from boltzkit.flow import SPLINE_PRESETS, Flow, build_spline_flow, short_gradients
from boltzkit.flow.short_products import short_products_are_fast
from boltzkit.method import DataConfig, RunConfig, fit
from boltzkit.randomness import generator
from boltzkit.training import TrainingConfig

KINDS = ("bond", "bond", "angle", "angle", "torsion", "torsion")


@pytest.fixture(params=["C++ kernels", "plain torch"])
def flow(request) -> Flow:
    """Five bins are none of the kernels' sizes."""
    bins = 8 if request.param == "C++ kernels" else 5
    made = build_spline_flow(SPLINE_PRESETS["tiny"].model_copy(update={"bins": bins}), KINDS, seed=0)
    draw = generator(0, "noise")
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.add_(0.2 * torch.randn(parameter.shape, generator=draw))
    return made


def value_and_gradient(flow: Flow, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    log_prob = flow.log_prob(x)
    gradients = torch.autograd.grad(log_prob.mean(), list(flow.parameters()))
    return log_prob.detach(), torch.cat([gradient.flatten() for gradient in gradients])


@pytest.mark.parametrize("fast", [True, False])
def test_values_stay_and_gradients_nearly(flow, fast, monkeypatch):
    monkeypatch.setattr("boltzkit.flow.short_products.short_products_are_fast", lambda: fast)
    x = flow.sample(256, generator(0, "x")).x.detach()
    value, gradient = value_and_gradient(flow, x)
    with short_gradients(flow):
        short_value, short_gradient = value_and_gradient(flow, x)
    assert torch.equal(value, short_value)
    error = (short_gradient - gradient).norm() / gradient.norm()
    # Where the processor gains nothing, nothing changes.
    assert 1e-4 < error < 2e-2 if fast else error == 0
    assert torch.equal(value_and_gradient(flow, x)[1], gradient)


def test_training_takes_them_and_goes_on_bit_for_bit(tmp_path):
    def config(gradients: str) -> RunConfig:
        return RunConfig(
            data=DataConfig(samples=40, validation_samples=20),
            training=TrainingConfig(steps=8, batch=16, log_every=1, checkpoint_every=2, gradients=gradients),
        ).with_overrides(["flow.kind=spline", "flow.pairs=1", "flow.hidden=[8, 8]"])

    def stop(line: dict[str, object], steps: int) -> None:
        if line["step"] == 5:
            raise Interrupted("here")

    whole, _ = fit(config("bfloat16"), tmp_path / "whole")
    with pytest.raises(Interrupted):
        fit(config("bfloat16"), tmp_path / "stopped", stop)
    resumed, _ = fit(config("bfloat16"), tmp_path / "stopped")
    plain, _ = fit(config("float32"), tmp_path / "plain")
    same = []
    for name, value in whole.flow.state_dict().items():
        assert torch.equal(value, resumed.flow.state_dict()[name]), name
        same.append(torch.equal(value, plain.flow.state_dict()[name]))
    assert all(same) != short_products_are_fast()
