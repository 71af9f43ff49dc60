"""Tabulated functions interpolate, look up and end exactly as OpenMM's Reference platform does."""

import numpy as np
import openmm
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from boltzkit.energy.forcefield.expression import Expression
from boltzkit.energy.forcefield.tabulated import SplineTable, from_openmm
from boltzkit.errors import UserError

Array = NDArray[np.float64]

LIMITS = ((-1.0, 1.5), (0.0, 2.0), (0.5, 0.9))
CONTINUOUS = (openmm.Continuous1DFunction, openmm.Continuous2DFunction, openmm.Continuous3DFunction)
DISCRETE = (openmm.Discrete1DFunction, openmm.Discrete2DFunction, openmm.Discrete3DFunction)


def openmm_values(function: openmm.TabulatedFunction, points: Array) -> tuple[Array, Array]:
    """Return OpenMM's values and gradients at points ``(n, arguments)``; the function is used up."""
    system = openmm.System()
    system.addParticle(1.0)
    arguments = ", ".join(("x1", "y1", "z1")[: points.shape[1]])
    force = openmm.CustomCompoundBondForce(1, f"table({arguments})")
    force.addTabulatedFunction("table", function)
    force.addBond([0], [])
    system.addForce(force)
    platform = openmm.Platform.getPlatformByName("Reference")
    context = openmm.Context(system, openmm.VerletIntegrator(0.001), platform)
    values, gradients = [], []
    for point in points:
        context.setPositions([(*point, *[0.0] * (3 - len(point)))])
        state = context.getState(energy=True, forces=True)
        values.append(state.getPotentialEnergy()._value)
        gradients.append([-component for component in state.getForces()[0]._value][: len(point)])
    return np.array(values), np.array(gradients)


def continuous(shape: tuple[int, ...], periodic: bool, seed: int = 0) -> openmm.TabulatedFunction:
    values = np.random.default_rng(seed).normal(size=shape)
    if periodic:
        values = np.pad(values[tuple(slice(-1) for _ in shape)], [(0, 1)] * len(shape), mode="wrap")
    sizes = shape if len(shape) > 1 else ()
    limits = [end for pair in LIMITS[: len(shape)] for end in pair]
    return CONTINUOUS[len(shape) - 1](*sizes, values.flatten(order="F"), *limits, periodic)


def points_around(shape: tuple[int, ...]) -> Array:
    """Return points within the limits, beyond them, and on them."""
    low, high = np.array(LIMITS[: len(shape)]).T
    inside = np.random.default_rng(1).uniform(low, high, (20, len(shape)))
    around = np.random.default_rng(2).uniform(
        low - 0.4 * (high - low), high + 0.4 * (high - low), (20, len(shape))
    )
    return np.concatenate([inside, around, [low, high, low + (high - low) / (np.array(shape) - 1)]])


@pytest.mark.parametrize("periodic", [False, True])
@pytest.mark.parametrize("shape", [(3,), (7,), (3, 3), (5, 4), (4, 5, 3)])
def test_splines_are_openmms(shape: tuple[int, ...], periodic: bool) -> None:
    function = continuous(shape, periodic)
    ours = from_openmm(function)
    points = points_around(shape)
    expected, slope = openmm_values(function, points)
    x = torch.tensor(points, requires_grad=True)
    value = ours(*x.unbind(-1))
    (gradient,) = torch.autograd.grad(value.sum(), x)
    np.testing.assert_allclose(value.detach(), expected, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(gradient, slope, rtol=1e-10, atol=1e-11)
    assert (expected == 0).any() != periodic


@pytest.mark.parametrize("shape", [(2,), (2, 2)])
def test_two_points_make_a_straight_line(shape: tuple[int, ...]) -> None:
    function = continuous(shape, periodic=False)
    ours = from_openmm(function)
    points = points_around(shape)
    value = ours(*torch.tensor(points).unbind(-1))
    np.testing.assert_allclose(value, openmm_values(function, points)[0], rtol=1e-10, atol=1e-12)


def test_the_wrong_ends_would_be_noticed() -> None:
    points = points_around((7,))[:20]
    natural, periodic = (from_openmm(continuous((7,), kind)) for kind in (False, True))
    x = torch.tensor(points[:, 0])
    assert not torch.allclose(natural(x), periodic(x), atol=1e-3)


@pytest.mark.parametrize("shape", [(5,), (2, 3), (2, 3, 4)])
def test_lookups_are_openmms(shape: tuple[int, ...]) -> None:
    values = np.random.default_rng(0).normal(size=shape)
    sizes = shape if len(shape) > 1 else ()
    function = DISCRETE[len(shape) - 1](*sizes, values.flatten(order="F"))
    ours = from_openmm(function)
    highest = np.array(shape) - 0.51
    points = np.random.default_rng(1).uniform(-0.49, highest, (30, len(shape)))
    points = np.concatenate([points, [[0.5] * len(shape), [-0.49] * len(shape), highest]])
    expected, _ = openmm_values(function, points)
    np.testing.assert_array_equal(ours(*torch.tensor(points).unbind(-1)), expected)


def test_a_lookup_outside_its_table_is_marked() -> None:
    table = from_openmm(openmm.Discrete1DFunction([1.0, 2.0, 3.0]))
    x = torch.tensor([-0.5, -0.4, 1.5, 2.4, 2.5, torch.nan, torch.inf])
    torch.testing.assert_close(
        table(x), torch.tensor([torch.nan, 1, 3, 3, torch.nan, torch.nan, torch.nan]), equal_nan=True
    )


def test_whole_numbers_index_without_losing_digits() -> None:
    table = from_openmm(openmm.Discrete1DFunction([0.1, 0.2, 0.3]))
    assert table(torch.tensor([2, 0])).tolist() == [0.3, 0.1]


@pytest.mark.parametrize("periodic", [False, True])
def test_nan_stays_nan_and_far_away_is_smooth(periodic: bool) -> None:
    table = from_openmm(continuous((5,), periodic))
    x = torch.tensor([torch.nan, 1e30, -1e30], requires_grad=True)
    value = table(x)
    value[1:].sum().backward()
    assert value.isnan().tolist() == [True, False, False]
    assert x.grad is not None
    assert x.grad[1:].isfinite().all()


def test_tables_follow_precision_and_broadcast() -> None:
    table = from_openmm(continuous((5, 4), periodic=False))
    x, y = torch.rand(3, 1), torch.rand(4)
    assert table(x, y).shape == (3, 4)
    assert table(x, y).dtype == torch.float32
    assert table.float().coefficients.dtype == torch.float32
    torch.testing.assert_close(table(x, y), torch.stack([table(one, y) for one in x]))


def test_a_wrong_number_of_arguments_is_named() -> None:
    table = from_openmm(continuous((5, 4), periodic=False))
    with pytest.raises(UserError, match=r"of 2 argument\(s\) was given 1"):
        table(torch.zeros(1))


def test_something_else_is_refused() -> None:
    class Strange(openmm.Discrete1DFunction):  # type: ignore[misc]
        pass

    with pytest.raises(UserError, match="does not know the tabulated function Strange"):
        from_openmm(Strange([1.0, 2.0]))


def test_expressions_call_tables_and_can_be_traced() -> None:
    tables = {
        "spline": from_openmm(continuous((5,), periodic=False)),
        "pick": SplineTable(np.eye(3), LIMITS[:2]),
    }
    expression = Expression.parse("spline(x)^2 + pick(x, 1)*y; y = x + spline(0.25)", tables)

    def function(x: Tensor) -> Tensor:
        return expression({"x": x}, tables)

    x = torch.linspace(-2.0, 2.0, 9, dtype=torch.float64)
    compiled = torch.compile(function, fullgraph=True, backend="eager")
    assert torch.equal(compiled(x), function(x))
    assert torch.autograd.gradcheck(function, x[3:6].clone().requires_grad_())
