"""A free-energy surface as a picture of its cells with a colour bar.

There are two pictures of each: on a light page low free energies are dark, on a dark page they are bright, so
that the basins always stand out and the slopes fade into the page.
"""

import base64

import numpy as np
from numpy.typing import NDArray

from boltzkit.report.molecule.colour import LEVELS, palette
from boltzkit.report.molecule.content import Surface
from boltzkit.report.molecule.markup import Markup, element, plain_notation
from boltzkit.report.molecule.plots import CEILING, SQUARE
from boltzkit.report.molecule.png import data_address, indexed_png
from boltzkit.report.molecule.svg import Axis, Frame

__all__ = ["draw_surface"]

_BAR, _GAP = 12.0, 16.0
_FINE = 300
"""Pixels along an axis whose cells are not all equally wide."""


def draw_surface(surface: Surface) -> Markup:
    """Draw a surface; cells without samples, and those above the ceiling, stay empty."""
    cells = np.array(surface.free_energy, dtype=np.float64)
    known = cells[np.isfinite(cells)]
    low = float(known.min()) if known.size else 0.0
    high = min(float(known.max()), low + CEILING) if known.size else 1.0
    high = high if high > low else low + 1.0
    frame = Frame(
        Axis.over(surface.x_edges[0], surface.x_edges[-1], surface.x_label),
        Axis.over(surface.y_edges[0], surface.y_edges[-1], surface.y_label),
        width=SQUARE,
        height=SQUARE,
        right=68.0,
    )
    levels = _levels(_even(surface, cells), low, high)
    picture = _pictures(levels, SQUARE, SQUARE)
    outline = element("rect", class_="outline", width=SQUARE, height=SQUARE)
    drawing = frame.drawn(
        _in_words(surface, cells), *picture, beside=element("g", outline, _colour_bar(low, high))
    )
    return Markup(drawing + _cells(surface, levels, low, high))


def _cells(surface: Surface, levels: NDArray[np.uint8], low: float, high: float) -> Markup:
    """Return what a script needs to tell the number of a cell: the picture's own levels."""
    x, y = (f"{edges[0]!r} {edges[-1]!r}" for edges in (surface.x_edges, surface.y_edges))
    return element(
        "span",
        class_="cells",
        hidden=True,
        data_rows=str(levels.shape[0]),
        data_columns=str(levels.shape[1]),
        data_levels=base64.b64encode(levels.tobytes()).decode(),
        data_low=repr(low),
        data_high=repr(high),
        data_x=x,
        data_y=y,
        data_x_label=surface.x_label,
        data_y_label=surface.y_label,
    )


def _even(surface: Surface, cells: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the cells as lines of a picture, top line first, each pixel as wide as any other."""
    for axis, edges in enumerate((surface.x_edges, surface.y_edges)):
        borders = np.array(edges)
        if not np.allclose(np.diff(borders), np.diff(borders).mean(), rtol=1e-6):
            centres = borders[0] + (np.arange(_FINE) + 0.5) * (borders[-1] - borders[0]) / _FINE
            cells = cells.take(np.searchsorted(borders, centres) - 1, axis=axis)
    return cells.T[::-1]


def _levels(cells: NDArray[np.float64], low: float, high: float) -> NDArray[np.uint8]:
    shown = np.isfinite(cells) & (cells <= high)
    share = np.where(shown, (np.where(shown, cells, low) - low) / (high - low), 0.0)
    return np.where(shown, np.round(share * (LEVELS - 1)), LEVELS).astype(np.uint8)


def _pictures(levels: NDArray[np.uint8], width: float, height: float, x: float = 0.0) -> list[Markup]:
    colours = palette()
    return [
        element(
            "image", class_=f"pixels on-{theme}", x=x, width=width, height=height, preserveAspectRatio="none",
            href=data_address(indexed_png(levels, table)),
        )
        for theme, table in (("light", colours), ("dark", colours[::-1]))
    ]  # fmt: skip


def _colour_bar(low: float, high: float) -> Markup:
    axis = Axis.over(low, high, "k_BT")
    left = SQUARE + _GAP
    gradient = np.arange(LEVELS - 1, -1, -1, dtype=np.uint8)[:, None]
    texts = [
        element("text", tick.text, x=left + _BAR + 6, y=SQUARE * (1 - axis.share(tick.at)) + 4)
        for tick in axis.ticks
    ]
    frame = element("rect", class_="outline", x=left, width=_BAR, height=SQUARE)
    label = element("text", plain_notation("k_BT"), class_="label", x=left, y=-12.0)
    return element("g", *_pictures(gradient, _BAR, SQUARE, left), frame, *texts, label)


def _in_words(surface: Surface, cells: NDArray[np.float64]) -> str:
    what = f"Free energy over {surface.x_label} and {surface.y_label}, {surface.title}"
    if not np.isfinite(cells).any():
        return f"{what}: no samples."
    column, row = np.unravel_index(int(np.nanargmin(cells)), cells.shape)
    x = (surface.x_edges[column] + surface.x_edges[column + 1]) / 2
    y = (surface.y_edges[row] + surface.y_edges[row + 1]) / 2
    share = 100 * np.isfinite(cells).mean()
    return f"{what}: lowest at {x:.3g}, {y:.3g}; samples in {share:.0f} % of the cells."
