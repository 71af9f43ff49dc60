"""Two-dimensional histograms of weighted samples, kept by block so that their errors can be had."""

import math
from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

from boltzkit.ensemble.blocks import even_blocks

__all__ = ["BINS", "TORUS", "Grid", "Histogram"]

BINS = 100
"""Per axis, as in the paper."""


@dataclass(frozen=True)
class Grid:
    """Equal cells over a rectangle, or over the whole torus.

    Attributes:
        low: lower corner.
        high: upper corner.
        periodic: whether the edges are joined; then no point lies outside.
        bins: cells per axis.
    """

    low: tuple[float, float]
    high: tuple[float, float]
    periodic: bool = False
    bins: int = BINS

    @classmethod
    def around(cls, points: Tensor, bins: int = BINS) -> Self:
        """Return the smallest grid that holds all finite points, ``(n, 2)``."""
        inside = points[points.isfinite().all(-1)].double()
        low, high = inside.amin(0), inside.amax(0)
        # A hair wider, so that the largest value falls into the last cell; and never of no width.
        high = high + 1e-9 * (high - low) + 1e-12
        return cls((float(low[0]), float(low[1])), (float(high[0]), float(high[1])), bins=bins)

    @property
    def cells(self) -> int:
        """The number of cells."""
        return self.bins**2

    @property
    def area(self) -> float:
        """Of one cell."""
        return math.prod((high - low) / self.bins for low, high in zip(self.low, self.high, strict=True))

    @property
    def edges(self) -> tuple[Tensor, Tensor]:
        """The borders of cells along both axes, ``(bins + 1,)`` each."""
        x, y = (
            torch.linspace(low, high, self.bins + 1, dtype=torch.float64)
            for low, high in zip(self.low, self.high, strict=True)
        )
        return x, y

    def cell(self, points: Tensor) -> Tensor:
        """Return the cell of each point, ``(n, 2) -> (n,)``; the number after the last one means outside or NaN."""
        low, high = (torch.tensor(end, dtype=torch.float64) for end in (self.low, self.high))
        finite = points.isfinite().all(-1)
        place = (
            ((points.double() - low) * (self.bins / (high - low))).nan_to_num(0.0, 0.0, 0.0).floor().long()
        )
        if self.periodic:
            place, inside = place % self.bins, finite
        else:
            inside = finite & (place >= 0).all(-1) & (place < self.bins).all(-1)
        return torch.where(inside, place[:, 0] * self.bins + place[:, 1], self.cells)


TORUS = Grid((-math.pi, -math.pi), (math.pi, math.pi), periodic=True)
"""The whole range of two dihedral angles."""


@dataclass(frozen=True, eq=False)
class Histogram:
    """Where weighted samples lie, by block.

    Attributes:
        grid: the cells.
        mass: weight in each cell and, last, outside of all, ``(blocks, cells + 1)``.
        n: samples in it.
        n_outside: samples outside the grid or not finite, whatever their weight.
    """

    grid: Grid
    mass: Tensor
    n: int
    n_outside: int

    @classmethod
    def of(
        cls, grid: Grid, points: Tensor, weights: Tensor | None = None, block: Tensor | None = None
    ) -> Self:
        """Count ``(n, 2)`` points with weights ``(n,)``, in blocks ``(n,)``; a hundred equal ones by default."""
        cell = grid.cell(points)
        block = even_blocks(len(points)) if block is None else block
        blocks, columns = int(block.max()) + 1, grid.cells + 1
        flat = torch.bincount(
            block * columns + cell,
            weights=None if weights is None else weights.double(),
            minlength=blocks * columns,
        )
        mass = flat.double().reshape(blocks, columns)
        return cls(grid, mass, len(points), int((cell == grid.cells).sum()))

    @property
    def outside(self) -> float:
        """The share of the weight that lies outside the grid."""
        return float(self.mass[:, -1].sum() / self.mass.sum())

    @property
    def probability(self) -> Tensor:
        """Of each cell, ``(bins, bins)``; sums to one minus what is outside."""
        return (self.mass[:, :-1].sum(0) / self.mass.sum()).reshape(self.grid.bins, self.grid.bins)

    @property
    def effective(self) -> float:
        r"""The number of independent, equal samples whose histogram would be as noisy.

        $$n = \sum_b P_b (1 - P_b) \Big/ \sum_b \mathrm{Var}(P_b)$$

        with the variance of each cell from the blocks. It is lowered by weights and by samples that resemble each
        other, and never exceeds their number.
        """
        total, blocks = self.mass.sum(), len(self.mass)
        p = self.mass.sum(0) / total
        # A block moves P_b by its own mass minus P_b times its own total.
        moves = (self.mass - p * self.mass.sum(1, keepdim=True)) / total
        variance = float(moves.square().sum()) * blocks / max(blocks - 1, 1)
        spread = float((p * (1 - p)).sum())
        return min(spread / variance, float(self.n)) if variance > 0 else float(self.n)

    def leaving_out(self) -> Tensor:
        """Return the probability of each cell without one block each, ``(blocks, cells + 1)``."""
        rest = self.mass.sum(0) - self.mass
        return rest / rest.sum(1, keepdim=True)

    def whole(self) -> Tensor:
        """Return the probability of each cell and outside, ``(cells + 1,)``."""
        return self.mass.sum(0) / self.mass.sum()
