"""Normalisation and tanh in one pass: values and gradients against plain torch in double precision."""

import pytest
import torch

from boltzkit.flow import tanh_layers
from boltzkit.flow.tanh_layers import normalised_tanh, tanh_of_rows
from boltzkit.native import compiler
from boltzkit.randomness import generator

SHAPES = [(3, 40), (2, 5, 33), (4, 3, 1), (1, 1000), (2, 2, 7)]
needs_compiler = pytest.mark.skipif(compiler() is None, reason="there is no C++ compiler on this machine")


def rows(shape: tuple[int, ...], n: int, *, scale: float = 1.0) -> list[torch.Tensor]:
    """An array and n columns of numbers per row, in double precision."""
    draw = generator(0, "tanh layers")
    h = scale * torch.randn(shape, generator=draw, dtype=torch.float64)
    return [h, *(torch.randn(*shape[:-1], 1, generator=draw, dtype=torch.float64) for _ in range(n))]


def value_and_gradients(function, inputs, dtype):
    leaves = [part.to(dtype).requires_grad_() for part in inputs]
    out = function(*leaves)
    gradient = torch.sin(torch.arange(out.numel(), dtype=torch.float64)).view(out.shape).to(dtype)
    return out.detach(), torch.autograd.grad(out, leaves, gradient)


def agree(function, inputs, tolerance: float) -> None:
    exact, exact_gradients = value_and_gradients(function, inputs, torch.float64)
    found, gradients = value_and_gradients(function, inputs, torch.float32)
    assert (found - exact).abs().max() <= tolerance
    for ours, theirs in zip(gradients, exact_gradients, strict=True):
        assert (ours - theirs).abs().max() <= tolerance * max(1.0, float(theirs.abs().max()))


@needs_compiler
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("scale", [1e-3, 1.0, 30.0])
def test_rows_agree_with_torch(shape, scale):
    h, slope, offset = rows(shape, 2, scale=scale)
    # A flat tanh has its slope to the rounding of 1; the gradient in a row's slope sums h times that.
    rounding = 2e-6 * max(1.0, scale) * shape[-1] ** 0.5
    agree(tanh_of_rows, (h, slope, offset), rounding)
    agree(lambda h, offset: tanh_of_rows(h, None, offset), (h, offset), rounding)


@needs_compiler
@pytest.mark.parametrize("shape", [shape for shape in SHAPES if shape[-1] > 1])
@pytest.mark.parametrize("mean", [0.0, 20.0])
def test_normalised_rows_agree_with_torch(shape, mean):
    h, scale, shift = rows(shape, 2)
    agree(lambda *parts: normalised_tanh(*parts, 1e-5)[0], (h + mean, scale, shift), 2e-5)


@needs_compiler
def test_statistics_are_those_of_the_rows():
    h, scale, shift = (part.float() for part in rows((3, 4, 100), 2))
    _, mean, var, n = normalised_tanh(h, scale, shift, 1e-5)
    torch.testing.assert_close(mean, h.mean(-1, keepdim=True))
    torch.testing.assert_close(var, h.var(-1, correction=0, keepdim=True))
    assert n == 100


@needs_compiler
def test_what_is_not_a_number_stays_visible():
    h, offset = torch.tensor([[0.0, float("nan"), float("inf"), -float("inf")]]), torch.zeros(1, 1)
    found = tanh_of_rows(h, None, offset)[0]
    assert found[1].isnan()
    torch.testing.assert_close(found[[0, 2, 3]], torch.tensor([0.0, 1.0, -1.0]))


def test_without_a_compiler_torch_does_it(monkeypatch):
    h, scale, shift = (part.float() for part in rows((2, 6, 50), 2))
    ours = normalised_tanh(h, scale, shift, 1e-5)
    monkeypatch.setattr(tanh_layers, "load_library", lambda source: None)
    theirs = normalised_tanh(h, scale, shift, 1e-5)
    for mine, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(mine, other)
    torch.testing.assert_close(tanh_of_rows(h, None, shift), torch.tanh(h + shift))
