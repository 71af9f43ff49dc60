"""A plot's frame as inline SVG: axes with ticks, and lines, bands and steps inside them.

Colours are classes, so that the page's style sheet sets them for light, dark and paper.
"""

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Self

from boltzkit.report.molecule.markup import Markup, element, plain_notation, rounded
from boltzkit.report.molecule.ticks import Tick, linear_ticks, log_ticks

__all__ = ["Axis", "Frame", "Readout", "path"]

_TICK = 4.0
"""Length of a tick."""
_LETTER = 8.0
"""Width of a wide letter."""


@dataclass(frozen=True)
class Axis:
    """A range of numbers with its ticks.

    Attributes:
        low: where it starts.
        high: where it ends.
        label: what it measures.
        ticks: places with a text.
        log: whether equal factors are equally far apart.
    """

    low: float
    high: float
    label: str
    ticks: tuple[Tick, ...]
    log: bool = False

    @classmethod
    def over(cls, low: float, high: float, label: str, log: bool = False) -> Self:
        """Return an axis over a range, widened if it is empty."""
        if log:
            return cls(low, high, label, log_ticks(low, high), log=True)
        if not high > low:
            low, high = low - 0.5, high + 0.5
        return cls(low, high, label, linear_ticks(low, high))

    def share(self, value: float) -> float:
        """Return where a number lies, 0 at the start and 1 at the end."""
        if self.log:
            return math.log(value / self.low) / math.log(self.high / self.low) if value > 0 else math.nan
        return (value - self.low) / (self.high - self.low)


@dataclass(frozen=True)
class Readout:
    """What to tell when someone points at a plot: a text for each place along x, in the axis's numbers."""

    x: tuple[float, ...]
    texts: tuple[str, ...]


@dataclass(frozen=True)
class Frame:
    """Two axes around a plot; lengths are pixels of the drawing, about those of a screen.

    Attributes:
        x: the axis below.
        y: the axis on the left.
        width: of the plot without what stands around it.
        height: of it.
        right: room beyond the plot, for a colour bar.
    """

    x: Axis
    y: Axis
    width: float = 306.0
    height: float = 176.0
    right: float = 14.0

    left, top, bottom = 42.0, 26.0, 40.0

    def place(self, x: float, y: float) -> tuple[float, float]:
        """Return where numbers lie inside the plot; the second number grows downwards."""
        return self.width * self.x.share(x), self.height * (1 - self.y.share(y))

    def line(self, x: Sequence[float], y: Sequence[float]) -> str:
        """Return the path through points, broken where there is no number."""
        # A lone point is drawn twice, so that the line's round ends make a dot of it.
        return " ".join(path(run if len(run) > 1 else run * 2) for run in self._runs(x, y))

    def band(self, x: Sequence[float], low: Sequence[float], high: Sequence[float]) -> str:
        """Return the path around the area between two lines, one piece for each run where both are numbers."""
        kept = [not (math.isnan(a) or math.isnan(b)) for a, b in zip(low, high, strict=True)]
        lower, upper = (
            [
                min(max(value, self.y.low), self.y.high) if keep else math.nan
                for value, keep in zip(line, kept, strict=True)
            ]
            for line in (low, high)
        )
        pairs = zip(self._runs(x, lower), self._runs(x, upper), strict=True)
        return " ".join(path([*below, *reversed(above)]) + "Z" for below, above in pairs)

    def steps(self, edges: Sequence[float], heights: Sequence[float]) -> str:
        """Return the outline of a histogram, down to zero at both ends."""
        corners = [(edges[0], 0.0)]
        for left, right, height in zip(edges[:-1], edges[1:], heights, strict=True):
            corners += [(left, height), (right, height)]
        return path([self.place(*corner) for corner in [*corners, (edges[-1], 0.0)]])

    def _runs(self, x: Sequence[float], y: Sequence[float]) -> Iterator[list[tuple[float, float]]]:
        run: list[tuple[float, float]] = []
        for point in zip(x, y, strict=True):
            placed = self.place(*point)
            if all(map(math.isfinite, placed)):
                run.append(placed)
            elif run:
                yield run
                run = []
        if run:
            yield run

    def drawn(
        self, description: str, *marks: Markup, beside: Markup | None = None, readout: Readout | None = None
    ) -> Markup:
        """Return the whole drawing.

        Args:
            description: in words, for those who do not see it.
            marks: what is inside, in its coordinates; what sticks out is cut off.
            beside: what is drawn right of it, in the same coordinates.
            readout: what to tell about places along x.
        """
        width, height = self.left + self.width + self.right, self.top + self.height + self.bottom
        told = None if readout is None else _written(self, readout)
        inside = element(
            "svg", *marks, class_="inside", width=self.width, height=self.height, overflow="hidden"
        )
        plot = element(
            "g",
            *self._grid(),
            inside,
            *self._texts(),
            *([] if beside is None else [beside]),
            transform=f"translate({rounded(self.left)} {rounded(self.top)})",
        )
        return element(
            "svg",
            plot,
            class_="plot",
            viewBox=f"0 0 {rounded(width)} {rounded(height)}",
            role="img",
            aria_label=description,
            data_readout=told,
            data_left=self.left,
            data_top=self.top,
            data_width=self.width,
            data_height=self.height,
        )

    def _grid(self) -> Iterator[Markup]:
        for tick in self.y.ticks:
            y = self.place(self.x.low, tick.at)[1]
            yield element("line", class_="grid", x1=0.0, x2=self.width, y1=y, y2=y)
        yield element("line", class_="axis", x1=0.0, x2=self.width, y1=self.height, y2=self.height)
        for tick in self.x.ticks:
            x = self.place(tick.at, self.y.low)[0]
            yield element("line", class_="axis", x1=x, x2=x, y1=self.height, y2=self.height + _TICK)

    def _texts(self) -> Iterator[Markup]:
        for tick in self.x.ticks:
            x = self.place(tick.at, self.y.low)[0]
            yield element("text", tick.text, x=x, y=self.height + _TICK + 12, text_anchor="middle")
        for tick in self.y.ticks:
            y = self.place(self.x.low, tick.at)[1]
            yield element("text", tick.text, x=-7.0, y=y + 4, text_anchor="end")
        yield element(
            "text",
            plain_notation(_fitting(self.x.label, self.width)),
            class_="label",
            x=self.width / 2,
            y=self.height + 35,
            text_anchor="middle",
        )
        yield element(
            "text",
            plain_notation(_fitting(self.y.label, self.width)),
            class_="label",
            x=7.0 - self.left,
            y=-12.0,
        )


def path(points: Sequence[tuple[float, float]]) -> str:
    """Return straight lines from point to point as the ``d`` of an SVG path.

    >>> path([(0.0, 1.0), (2.0, 3.25)])
    'M0 1L2 3.25'
    """
    return "M" + "L".join(f"{rounded(x)} {rounded(y)}" for x, y in points)


def _fitting(text: str, room: float) -> str:
    """Return a text, shortened if it would be longer than the axis."""
    most = int(room / _LETTER)
    return text if len(text) <= most else text[: most - 1] + "…"


def _written(frame: Frame, readout: Readout) -> str:
    places = [round(frame.width * frame.x.share(x), 1) for x in readout.x]
    return json.dumps({"x": places, "text": readout.texts}, ensure_ascii=False, separators=(",", ":"))
