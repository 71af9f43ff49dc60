"""A coupling by C++ kernels against the same coupling by plain torch in double precision."""

import copy

import pytest
import torch
from torch import Tensor

from boltzkit.flow.native_spline import native_ready
from boltzkit.flow.spline_coupling import SplineCoupling
from boltzkit.randomness import generator

SEAMS = (None, 0.3, None, 0.7, 0.05, None, None)
GIVENS = {
    "both kinds": ((1, 2, 5), (0, 3, 4, 6)),
    "circles": ((1, 3), (0, 2, 4, 5, 6)),
    "intervals": ((0, 2), (1, 3, 4, 5, 6)),
}


def coupling(given: tuple[int, ...], changed: tuple[int, ...], n_bins: int = 8) -> SplineCoupling:
    made = SplineCoupling(given, changed, SEAMS, (16, 12, 8), n_bins)
    draw = generator(0, "coupling")
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.copy_(0.3 * torch.randn(parameter.shape, generator=draw))
    return made


def plain(made: SplineCoupling) -> SplineCoupling:
    twin = copy.deepcopy(made).double()
    twin.compiled = False
    return twin


def results(made: SplineCoupling, x: Tensor, direction: str) -> list[Tensor]:
    """Return value, log-determinant and all gradients of a random sum of them."""
    x = x.to(next(made.parameters()).dtype).requires_grad_()
    found = getattr(made, direction)(x)
    draw = generator(1, "cotangents")
    weights = [torch.randn(f.shape, generator=draw).to(f.dtype) for f in found]
    gradients = torch.autograd.grad(found, [x, *made.parameters()], weights)
    return [value.detach().double() for value in (*found, *gradients)]


def disagreement(found: list[Tensor], expected: list[Tensor]) -> float:
    pairs = zip(found, expected, strict=True)
    return max(float((f - e).abs().max() / (1 + e.abs().max())) for f, e in pairs)


@pytest.mark.parametrize("batch", [1, 37, 64])
@pytest.mark.parametrize("given", GIVENS)
@pytest.mark.parametrize("direction", ["transform", "inverse"])
def test_values_and_gradients(direction, given, batch):
    made = coupling(*GIVENS[given])
    x = torch.rand(batch, len(SEAMS), generator=generator(2, "x"))
    if not native_ready(x, 8):
        pytest.skip("there is no C++ compiler here")
    found = results(made, x, direction)
    assert disagreement(found, results(plain(made), x, direction)) <= 5e-4
    # Control: another bias of the last layer, which is added inside the splines' kernel.
    other = plain(made)
    with torch.no_grad():
        other.network.layers[-1].bias[:8] += torch.linspace(0, 0.5, 8)[:, None]
    assert disagreement(found, results(other, x, direction)) > 1e-2


def test_bits_do_not_depend_on_the_layout_of_the_batch():
    made = coupling(*GIVENS["both kinds"])
    x = torch.rand(40, len(SEAMS), generator=generator(3, "x"))
    rowwise = made.inverse(x)
    columnwise = made.inverse(x.mT.contiguous().mT)
    assert all(torch.equal(a, b) for a, b in zip(rowwise, columnwise, strict=True))


def test_a_second_backward_pass_is_refused():
    made = coupling(*GIVENS["both kinds"])
    _, log_det = made.inverse(torch.rand(5, len(SEAMS), generator=generator(6, "x")))
    log_det.sum().backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="differentiated once"):
        log_det.sum().backward()


def test_what_is_frozen_gets_no_gradient():
    made = coupling(*GIVENS["both kinds"]).requires_grad_(False)
    x = torch.rand(5, len(SEAMS), generator=generator(4, "x")).requires_grad_()
    z, log_det = made.inverse(x)
    (z.sum() + log_det.sum()).backward()
    assert x.grad is not None
    assert all(parameter.grad is None for parameter in made.parameters())
    trained = coupling(*GIVENS["both kinds"])
    trained.inverse(x.detach())[1].sum().backward()
    assert all(parameter.grad is not None for parameter in trained.parameters())


@pytest.mark.parametrize("value", [-3.0, 1e30, torch.inf])
def test_given_values_far_outside_give_finite_gradients(value):
    made = coupling(*GIVENS["both kinds"])
    x = torch.rand(20, len(SEAMS), generator=generator(5, "x"))
    x[0, 1], x[1, 2] = value, value
    z, log_det = made.inverse(x)
    log_det.sum().backward()
    assert torch.isfinite(log_det).all()
    assert z[0, 1] == value
    assert all(torch.isfinite(parameter.grad).all() for parameter in made.parameters())


def test_a_dim_that_is_neither_given_nor_changed_is_refused():
    with pytest.raises(ValueError, match="given or changed"):
        SplineCoupling((0, 1), (2, 3), SEAMS, (4,))
