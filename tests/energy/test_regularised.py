"""Regularised energies: continuous, monotone, with finite gradients, and failures that stay failures."""

import math

import pytest
import torch
from torch import Tensor

from boltzkit.energy import regularise
from boltzkit.errors import UserError

PLATEAU = math.log(1e20 - 1e8 + 1) + 1e8


def tensor(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def test_branches_have_their_values() -> None:
    energy = tensor(-5.0, 1e8, 1e8 + math.e - 1, 1e10, 1e20, 1e21, math.inf)
    middle = math.log(1e10 - 1e8 + 1) + 1e8
    expected = tensor(-5.0, 1e8, 1e8 + 1, middle, PLATEAU, PLATEAU, PLATEAU)
    torch.testing.assert_close(regularise(energy), expected, rtol=0, atol=1e-7)


@pytest.mark.parametrize("joint", [10.0, 50.0])
def test_continuous_at_both_joints(joint: float) -> None:
    sides = regularise(tensor(joint - 1e-9, joint, joint + 1e-9), high=10.0, maximum=50.0)
    assert sides.diff().abs().max() < 2e-9


def test_monotone_and_below_the_energy() -> None:
    energy = torch.linspace(-20, 80, 5001, dtype=torch.float64)
    flattened = regularise(energy, high=10.0, maximum=50.0)
    assert (flattened.diff() >= 0).all()
    assert (flattened <= energy).all()
    assert (flattened[energy < 50].diff() > 0).all()


def test_nan_and_minus_infinity_are_kept() -> None:
    value = regularise(tensor(math.nan, -math.inf, 1.0))
    assert value[0].isnan()
    assert value[1] == -math.inf
    assert value[2] == 1.0


def test_gradients_are_finite_on_every_branch() -> None:
    energy = tensor(-1e30, -1.0, 1e8, 1e8 + 1, 1e12, 1e25, math.inf).requires_grad_()
    (gradient,) = torch.autograd.grad(regularise(energy).sum(), energy)
    expected = tensor(1.0, 1.0, 1.0, 0.5, 1 / (1e12 - 1e8 + 1), 0.0, 0.0)
    torch.testing.assert_close(gradient, expected, rtol=1e-9, atol=0)


def test_one_nan_leaves_the_other_gradients_alone() -> None:
    energy = tensor(math.nan, 1.0, 1e9).requires_grad_()
    (gradient,) = torch.autograd.grad(regularise(energy)[1:].sum(), energy)
    assert gradient.isfinite().all()


def test_gradient_agrees_with_finite_differences() -> None:
    energy = tensor(-3.0, 9.0, 11.0, 30.0, 49.0, 51.0, 1e3).requires_grad_()
    assert torch.autograd.gradcheck(lambda e: regularise(e, high=10.0, maximum=50.0), energy)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_dtype_and_shape_are_kept(dtype: torch.dtype) -> None:
    value = regularise(torch.full((2, 3), torch.inf, dtype=dtype))
    assert value.dtype == dtype
    assert value.shape == (2, 3)
    assert value.isfinite().all()


@pytest.mark.parametrize("bounds", [(2.0, 1.0), (1.0, math.inf), (math.nan, 1.0)])
def test_bounds_out_of_order_are_refused(bounds: tuple[float, float]) -> None:
    with pytest.raises(UserError, match="high ≤ maximum"):
        regularise(tensor(1.0), *bounds)
