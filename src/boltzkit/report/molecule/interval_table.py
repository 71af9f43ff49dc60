"""Tables of values with their 95 % intervals, in numbers and as bars on a common scale."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from boltzkit.report.molecule.content import Interval, Table
from boltzkit.report.molecule.markup import Markup, element, notation
from boltzkit.report.molecule.ticks import linear_ticks, number

__all__ = ["draw_table"]

_COARSE = 3.55
"""A half width that starts with less than this gets two significant digits, any other one."""
_MOST = 4
"""Decimals."""
_FIGURE_SPACE, _POINT_SPACE = "\u2007", "\u2008"
"""As wide as a digit and as a decimal point."""


@dataclass(frozen=True)
class _Scale:
    """The range that the bars of a table share."""

    low: float
    high: float

    @classmethod
    def of(cls, rows: Sequence[Interval]) -> "_Scale | None":
        """Return the range of all finite ends, with zero unless it is far away; None if there are none."""
        ends = [end for row in rows for end in (row.value, row.low, row.high) if math.isfinite(end)]
        if not ends:
            return None
        low, high = min(ends), max(ends)
        if min(abs(low), abs(high)) <= 1.5 * (high - low):
            low, high = min(low, 0.0), max(high, 0.0)
        room = 0.06 * (high - low) or 0.5
        return cls(low - room, high + room)

    def percent(self, value: float) -> str:
        """Return where a number lies, as SVG writes it; beyond the ends is at the ends."""
        share = (value - self.low) / (self.high - self.low)
        return f"{100 * min(max(share, 0.0), 1.0):.2f}%"


def draw_table(table: Table, identifier: str) -> Markup:
    """Draw a table with its title above and its caption below; if its rows have several units, without bars.

    Roles are spelled out because a narrow screen lays rows out in another way, which makes some browsers forget them.
    """
    one_unit = len({row.unit for row in table.rows}) == 1
    scale = _Scale.of(table.rows) if one_unit else None
    unit = table.rows[0].unit if one_unit else ""
    head = [
        element("th", element("span", "Quantity", class_="unseen"), scope="col", role="columnheader"),
        element("th", notation(unit or "Value"), scope="col", role="columnheader", class_="number"),
        element("th", "95\u00a0%\u00a0interval", scope="col", role="columnheader", class_="number"),
    ]
    if scale is not None:
        hidden = element("span", "Interval, drawn", class_="unseen")
        head.append(element("th", hidden, _axis(scale), scope="col", role="columnheader", class_="drawn"))
    decimals = max((_decimals(row) for row in table.rows), default=0)
    body = [_row(row, decimals, scale, one_unit) for row in table.rows]
    grid = element(
        "table",
        element("thead", element("tr", *head, role="row"), role="rowgroup"),
        element("tbody", *body, role="rowgroup"),
        role="table",
        aria_labelledby=f"{identifier}-title",
        aria_describedby=f"{identifier}-caption" if table.caption else None,
    )
    title = element("h3", notation(table.title), id=f"{identifier}-title")
    caption = element("p", notation(table.caption), class_="caption", id=f"{identifier}-caption")
    return element("div", title, grid, caption if table.caption else "", class_="panel table")


def _row(row: Interval, decimals: int, scale: _Scale | None, one_unit: bool) -> Markup:
    own = _decimals(row)
    # Points of different units need not stand below each other.
    written = _aligned(row.value, own, decimals) if one_unit else number(row.value, own)
    value = element("span", written, class_="value")
    shows_unit = bool(row.unit) and not one_unit and not math.isnan(row.value)
    unit = element("span", " ", notation(row.unit), class_="unit") if shows_unit else ""
    note = element("span", notation(row.note), class_="note") if row.note else ""
    ends = f"[{number(row.low, own)}, {number(row.high, own)}]" if not math.isnan(row.value) else "–"
    cells = [
        element("th", notation(row.label), note, scope="row", role="rowheader"),
        element("td", value, unit, role="cell", class_="number"),
        element("td", ends, role="cell", class_="number ends"),
    ]
    if scale is not None:
        cells.append(element("td", _bar(row, scale), role="cell", class_="drawn"))
    return element("tr", *cells, role="row")


def _decimals(row: Interval) -> int:
    """Return how many decimals the interval's width leaves meaningful."""
    half = (row.high - row.low) / 2
    if not math.isfinite(half) or half <= 0:
        half = abs(row.value) / 100
    if not math.isfinite(half) or half <= 0:
        return 0
    power = math.floor(math.log10(half))
    return min(max((half / 10.0**power < _COARSE) - power, 0), _MOST)


def _aligned(value: float, own: int, most: int) -> str:
    """Write a number so that decimal points stand below each other in a column set flush right."""
    missing = _POINT_SPACE * (own == 0 and most > 0) + _FIGURE_SPACE * (most - own)
    return number(value, own) + missing


def _bar(row: Interval, scale: _Scale) -> Markup:
    if not math.isfinite(row.value):
        return Markup("")
    low, value, high = (scale.percent(end) for end in (row.low, row.value, row.high))
    return element(
        "svg",
        element("line", class_="track", x1="0", x2="100%", y1="50%", y2="50%"),
        *_zero(scale),
        element("line", class_="span", x1=low, x2=high, y1="50%", y2="50%"),
        element("line", class_="dot", x1=value, x2=value, y1="15%", y2="85%"),
        class_="bar",
        aria_hidden="true",
    )


def _zero(scale: _Scale) -> list[Markup]:
    if not scale.low < 0 < scale.high:
        return []
    zero = scale.percent(0.0)
    return [element("line", class_="zero", x1=zero, x2=zero, y1="0", y2="100%")]


def _axis(scale: _Scale) -> Markup:
    """Return the scale above the bars."""
    ticks = linear_ticks(scale.low, scale.high, about=3)
    texts = [
        element("text", tick.text, x=scale.percent(tick.at), y=11.0, text_anchor="middle") for tick in ticks
    ]
    return element("svg", *texts, class_="scale", aria_hidden="true")
