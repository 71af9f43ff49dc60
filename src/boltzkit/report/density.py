"""Two-dimensional log-densities side by side."""

from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray

__all__ = ["DensityGrid", "draw_density", "draw_log_weight", "draw_samples"]


@dataclass(frozen=True)
class DensityGrid:
    """A log-density on a square grid.

    Args:
        axis: coordinates of both axes, ``(points,)``.
        log_prob: ``(points, points)``, first index along x.
    """

    axis: NDArray[np.float64]
    log_prob: NDArray[np.float32]


def draw_density(ax: Axes, grid: DensityGrid, title: str, depth: float = 8.0) -> None:
    """Draw contours of log q from the maximum down to `depth`."""
    values = grid.log_prob.T - grid.log_prob.max()
    ax.contourf(
        grid.axis, grid.axis, np.clip(values, -depth, 0), levels=np.linspace(-depth, 0, 17), cmap="viridis"
    )
    _frame(ax, title)


def draw_samples(ax: Axes, x: NDArray[np.float64], half_width: float, title: str) -> None:
    """Draw samples, ``(n, 2)``, in the frame of the densities."""
    ax.plot(*x.T, ".", ms=2.5, color="0.25", alpha=0.7)
    ax.set_xlim(-half_width, half_width)
    ax.set_ylim(-half_width, half_width)
    _frame(ax, title)


def draw_log_weight(
    ax: Axes, target: DensityGrid, model: DensityGrid, title: str, limit: float = 1.5
) -> None:
    """Draw f = log p − log q where the target has mass: blue where the model has too much, red too little."""
    weight = (target.log_prob - model.log_prob).T
    depth = target.log_prob.max() - target.log_prob.T
    shown = np.where(depth < 7.0, np.clip(weight, -limit, limit), np.nan)
    ax.pcolormesh(
        grid_edges(model.axis), grid_edges(model.axis), shown, cmap="RdBu_r", vmin=-limit, vmax=limit
    )
    _frame(ax, title)


def grid_edges(axis: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the cell edges around equally spaced centres."""
    half = (axis[1] - axis[0]) / 2
    return np.append(axis - half, axis[-1] + half)


def _frame(ax: Axes, title: str) -> None:
    ax.set_title(title, fontsize=10)
    ax.set_aspect("equal")
    ax.set_xticks([-2, 0, 2])
    ax.set_yticks([-2, 0, 2])
