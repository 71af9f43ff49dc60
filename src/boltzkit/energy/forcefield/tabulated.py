"""OpenMM's tabulated functions in torch: cubic splines and lookup tables of one to three arguments."""

from collections.abc import Sequence
from functools import reduce
from operator import or_
from typing import Any, final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from boltzkit.errors import UserError

__all__ = ["DiscreteTable", "SplineTable", "from_openmm"]

Array = NDArray[np.float64]


@final
class DiscreteTable(nn.Module):
    """A table read at the nearest integers, halves rounded away from zero; NaN outside of it.

    OpenMM leaves open what an index outside the table gives; here its sample is marked.

    Args:
        values: the table, with one axis for each argument.
    """

    values: Tensor

    def __init__(self, values: Array) -> None:
        super().__init__()
        self.register_buffer("values", torch.tensor(values, dtype=torch.float64), persistent=False)

    def forward(self, *arguments: Tensor) -> Tensor:
        """Return the entry for each index; it has no gradient."""
        _count(arguments, self.values.ndim)
        places, outside = [], []
        for x, size in zip(arguments, self.values.shape, strict=True):
            nearest = torch.trunc(x + 0.5 * torch.sign(x))
            outside.append(~((nearest >= 0) & (nearest < size)))
            places.append(_index(nearest, size))
        found = torch.take(_as(self.values, arguments[0]), _flat(places, self.values.shape))
        return torch.where(reduce(or_, outside), torch.nan, found)


@final
class SplineTable(nn.Module):
    r"""A cubic spline through values on a regular grid, one axis for each argument, zero outside of it.

    Along every axis the spline is natural (no curvature at the ends) or periodic, where arguments wrap
    around. In cell $i$, with $t_k$ the fraction of the cell passed along axis $k$,

    $$f(x_1, \dots, x_d) = \sum_{p_1 \dots p_d = 0}^{3} c_{i, p_1 \dots p_d} \prod_k t_k^{p_k}$$

    Args:
        values: the table; at least two values along every axis.
        limits: the first and last grid point of each axis.
        periodic: whether the first and last values of every axis are the same point.
    """

    coefficients: Tensor

    def __init__(self, values: Array, limits: Sequence[tuple[float, float]], periodic: bool = False) -> None:
        super().__init__()
        self._limits = tuple(limits)
        self._cells = tuple(size - 1 for size in values.shape)
        self._periodic = periodic
        fitted = torch.tensor(_fit(values, periodic), dtype=torch.float64)
        self.register_buffer("coefficients", fitted, persistent=False)

    def forward(self, *arguments: Tensor) -> Tensor:
        """Interpolate; arguments broadcast, and gradients flow through all of them."""
        _count(arguments, len(self._cells))
        positions, outside = zip(*map(self._position, range(len(arguments)), arguments), strict=True)
        cells = list(map(_index, positions, self._cells))
        cell = _flat(cells, self._cells)
        table = _as(self.coefficients, arguments[0]).flatten(len(cells))
        value = table.index_select(-1, cell.reshape(-1)).reshape(table.shape[:-1] + cell.shape)
        for position, index in zip(positions, cells, strict=True):
            t = position - index
            value = ((value[0] * t + value[1]) * t + value[2]) * t + value[3]
        return torch.where(reduce(or_, outside), 0.0, value)

    def _position(self, axis: int, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return x in units of cells from the start of an axis, and where it lies beyond the axis."""
        low, high = self._limits[axis]
        position = (x - low) * (self._cells[axis] / (high - low))
        if self._periodic:
            position = position - torch.floor(position / self._cells[axis]) * self._cells[axis]
            return position, torch.zeros_like(x, dtype=torch.bool)
        beyond = (x < low) | (x > high)
        # A polynomial far beyond its cell could overflow, and its gradient would be NaN instead of zero.
        return torch.where(beyond, 0.0, position), beyond


def from_openmm(function: Any) -> DiscreteTable | SplineTable:
    """Return the torch equivalent of an OpenMM ``TabulatedFunction`` of any kind."""
    kind = type(function).__name__
    parameters = function.getFunctionParameters()
    match kind:
        case "Discrete1DFunction":
            return DiscreteTable(np.asarray(parameters))
        case "Discrete2DFunction" | "Discrete3DFunction":
            *sizes, values = parameters
            return DiscreteTable(_grid(values, sizes))
        case "Continuous1DFunction":
            values, *limits = parameters
            sizes = [len(values)]
        case "Continuous2DFunction":
            (*sizes, values), limits = parameters[:3], parameters[3:]
        case "Continuous3DFunction":
            (*sizes, values), limits = parameters[:4], parameters[4:]
        case _:
            raise UserError(f"The torch force field does not know the tabulated function {kind}.")
    pairs = list(zip(limits[::2], limits[1::2], strict=True))
    return SplineTable(_grid(values, sizes), pairs, function.getPeriodic())


def _grid(values: Sequence[float], sizes: Sequence[int]) -> Array:
    """Give OpenMM's list of values one axis for each argument; its first argument varies fastest."""
    return np.asarray(values, dtype=np.float64).reshape(sizes, order="F")


def _fit(values: Array, periodic: bool) -> Array:
    """Return the coefficients of all cells, ``(4, …, cells, …)`` with the highest power first.

    The spline through a grid is the spline, along one axis, of the coefficients along the others.
    """
    from scipy.interpolate import CubicSpline

    axes = values.ndim
    for _ in range(axes):
        if periodic:
            values = np.concatenate([values[:-1], values[:1]])
        grid = np.arange(len(values))
        spline = CubicSpline(grid, values, bc_type="periodic" if periodic else "natural")
        # (power, cell, other axes…): the two new axes go last, and the next axis to fit comes first.
        values = np.moveaxis(spline.c, (0, 1), (-2, -1))
    return values.transpose(*range(0, 2 * axes, 2), *range(1, 2 * axes, 2))


def _index(position: Tensor, size: int) -> Tensor:
    """Return the cell of a position, or any cell where there is none."""
    return torch.nan_to_num(position.detach()).clamp(0, size - 1).long()


def _flat(indices: Sequence[Tensor], sizes: Sequence[int]) -> Tensor:
    """Return the place in the flattened table of an index along each axis."""
    place = indices[0]
    for index, size in zip(indices[1:], sizes[1:], strict=True):
        place = place * size + index
    return place


def _as(table: Tensor, argument: Tensor) -> Tensor:
    dtype = argument.dtype if argument.is_floating_point() else table.dtype
    return table.to(argument.device, dtype)


def _count(arguments: Sequence[Tensor], expected: int) -> None:
    if len(arguments) != expected:
        raise UserError(f"A tabulated function of {expected} argument(s) was given {len(arguments)}.")
