"""Gradients by bfloat16 products: the same values, nearly the same gradients, in training on a CPU alone."""

from typing import ClassVar

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from boltzkit.flow import SPLINE_PRESETS, Flow, build_spline_flow, short_gradients
from boltzkit.flow.relu_network import layer_gradients
from boltzkit.randomness import generator

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


def test_they_are_for_training_on_a_cpu_alone(flow, monkeypatch):
    """Forces that move samples, and other devices, keep float32."""
    monkeypatch.setattr("boltzkit.flow.short_products.short_products_are_fast", lambda: True)
    x = flow.sample(64, generator(0, "x")).x.detach()

    def force() -> torch.Tensor:
        leaf = x.clone().requires_grad_()
        return torch.autograd.grad(flow.log_prob(leaf).sum(), leaf)[0]

    plain = force()
    with short_gradients(flow):
        with flow.evaluating():
            assert torch.equal(force(), plain)
        assert not torch.equal(force(), plain)


def test_another_device_multiplies_as_ever():
    class Watched(TorchDispatchMode):
        factors: ClassVar[set[torch.dtype]] = set()

        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            if function.overloadpacket is torch.ops.aten.mm:
                self.factors.add(args[0].dtype)
            return function(*args, **(kwargs or {}))

    grad, seen, weight = (torch.ones(3, 3, device="meta") for _ in range(3))
    with Watched():
        layer_gradients(grad, [seen], [weight], [True, True], short=True)
    assert Watched.factors == {torch.float32}
    with Watched():  # the control
        layer_gradients(
            grad.new_ones(3, 3, device="cpu"), *([torch.ones(3, 3)],) * 2, [True, True], short=True
        )
    assert torch.bfloat16 in Watched.factors
