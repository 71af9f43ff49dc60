"""Free-energy surfaces of two coordinates: F = −log p in k_BT, the lowest cell at zero."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import QuadMesh
from matplotlib.figure import Figure
from numpy.typing import NDArray

from boltzkit.ensemble import Histogram

__all__ = ["FreeEnergySurface", "SurfaceRow", "draw_surface", "mark_starts", "surface_figure"]

_PALETTE = "viridis"
_PI_TICKS = {-math.pi: "−π", 0.0: "0", math.pi: "π"}


@dataclass(frozen=True, eq=False)
class FreeEnergySurface:
    """F on cells of a grid.

    Attributes:
        x: borders of cells along the first coordinate, ``(bins + 1,)``.
        y: the same along the second.
        values: F in k_BT, ``(bins, bins)``, first index along x; NaN where no sample is.
        periodic: whether the coordinates are angles.
    """

    x: NDArray[np.float64]
    y: NDArray[np.float64]
    values: NDArray[np.float64]
    periodic: bool

    @classmethod
    def of(cls, histogram: Histogram) -> Self:
        """Return the surface of a histogram."""
        p = histogram.probability.numpy()
        values = np.full_like(p, np.nan)
        np.log(p, out=values, where=p > 0)
        x, y = (edges.numpy() for edges in histogram.grid.edges)
        return cls(x, y, np.nanmax(values) - values, histogram.grid.periodic)

    @property
    def highest(self) -> float:
        """The highest F of a cell that has samples."""
        return float(np.nanmax(self.values))


@dataclass(frozen=True)
class SurfaceRow:
    """Surfaces side by side.

    Attributes:
        surfaces: by title.
        labels: of both axes.
    """

    surfaces: Mapping[str, FreeEnergySurface]
    labels: tuple[str, str]


def draw_surface(ax: Axes, surface: FreeEnergySurface, ceiling: float) -> QuadMesh:
    """Draw a surface up to a ceiling in k_BT; cells without a sample, and those above the ceiling, stay white."""
    # Rasterised cells with no seams between them, also in a vector format.
    shown = np.where(surface.values <= ceiling, surface.values, np.nan).T
    mesh = ax.pcolormesh(surface.x, surface.y, shown, cmap=_PALETTE, vmin=0.0, vmax=ceiling, rasterized=True)
    ax.set_box_aspect(1)
    ax.tick_params(length=3, labelsize=9)
    if surface.periodic:
        for axis in (ax.xaxis, ax.yaxis):
            axis.set_ticks(list(_PI_TICKS), labels=list(_PI_TICKS.values()))
        ax.set_xlim(-math.pi, math.pi)
        ax.set_ylim(-math.pi, math.pi)
    return mesh


def mark_starts(ax: Axes, points: Sequence[tuple[float, float]]) -> None:
    """Mark where trajectories started."""
    x, y = zip(*points, strict=True)
    ax.plot(x, y, "o", ms=9, mfc="none", mec="white", mew=3.5)
    ax.plot(x, y, "o", ms=9, mfc="none", mec="#d62728", mew=2.0, label="start of a trajectory")


def surface_figure(rows: Sequence[SurfaceRow], ceiling: float | None = None) -> Figure:
    """Return rows of surfaces that share one colour bar.

    Args:
        rows: surfaces, one row each.
        ceiling: highest F that is drawn, in k_BT; that of any surface by default. Reweighted samples reach
            cells with weights of next to nothing, hundreds of k_BT up, which no one wants to see.
    """
    columns = max(len(row.surfaces) for row in rows)
    figure = Figure(figsize=(2.9 * columns + 0.9, 2.75 * len(rows) + 0.35), layout="constrained")
    axes = figure.subplots(len(rows), columns, squeeze=False)
    if ceiling is None:
        ceiling = max(surface.highest for row in rows for surface in row.surfaces.values())
    mesh = None
    above: Sequence[str] = ()
    for line, row in zip(axes, rows, strict=True):
        # Rows with the titles of the row above need none of their own.
        above, repeated = list(row.surfaces), list(row.surfaces) == above
        for place, (title, surface) in enumerate(row.surfaces.items()):
            mesh = draw_surface(line[place], surface, ceiling)
            line[place].set_title("" if repeated else title, fontsize=11)
            line[place].set_xlabel(row.labels[0], fontsize=10)
            if place == 0:
                line[place].set_ylabel(row.labels[1], fontsize=10)
        for ax in line[len(row.surfaces) :]:
            ax.set_axis_off()
    assert mesh is not None
    bar = figure.colorbar(mesh, ax=axes, shrink=0.9 if len(rows) == 1 else 0.6, pad=0.015, aspect=24)
    bar.set_label("free energy / $k_\\mathrm{B}T$", fontsize=10)
    bar.ax.tick_params(labelsize=9)
    return figure
