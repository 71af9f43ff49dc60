"""Figures of finished rows: metrics by data size, by method and by λ_data."""

import statistics
from collections.abc import Sequence

from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from boltzkit.method.dispersion_name import dispersion_label
from boltzkit.report import Series, draw_by_size
from boltzkit.reproduce.experiment import Drawing, Found, Picture
from boltzkit.reproduce.study import START
from boltzkit.reproduce.table import Column, Row

__all__ = ["Colour", "by_data_weight", "by_method", "by_size", "colours"]

_LEVELS = ("--", ":")
"""Rows without dispersion: the forward KL alone, and where there is one, the start of all rows."""
_PLAIN = 10
"""Colours that matplotlib tells apart by name."""


Colour = str | tuple[float, ...]
"""As matplotlib takes it."""


def colours(found: Sequence[Found]) -> dict[str, Colour]:
    """Return one colour per label, the same in all figures of an experiment."""
    labels = list(dict.fromkeys(one.row.label for one in found))
    if len(labels) <= _PLAIN:
        return {label: f"C{i}" for i, label in enumerate(labels)}
    shades = colormaps["turbo"]
    return {label: shades((i + 0.5) / len(labels)) for i, label in enumerate(labels)}


def by_size(
    columns: Sequence[Column],
    keys: Sequence[str],
    what: str = "the number of training samples",
    published: Sequence[Row] = (),
) -> Drawing:
    """Draw metrics against a number that blocks are named by, the published values as open diamonds.

    Args:
        columns: of the table.
        keys: of those to draw.
        what: the number.
        published: rows of the paper beside those that were run, drawn where their label is one of these.
    """
    chosen = [column for column in columns if column.key in keys]

    def draw(found: Sequence[Found]) -> Picture | None:
        if len({one.row.group for one in found}) < 2:
            return None
        figure = Figure(figsize=(6.2 * len(chosen), 4.2), layout="constrained")
        for ax, column in zip(figure.subplots(1, len(chosen), squeeze=False)[0], chosen, strict=True):
            draw_by_size(
                ax,
                _series(found, column, published),
                _plain(column.title),
                what.removeprefix("the number of "),
            )
        drawn = " and ".join(_plain(column.title) for column in chosen)
        name = "ess.png" if list(keys) == ["ess"] else "by_size.png"
        papers = [*(one.row for one in found), *published]
        marked = "; open diamonds: published values" if any(row.paper for row in papers) else ""
        return Picture(name, figure, f"{drawn} against {what}{marked}.")

    return draw


def by_method(columns: Sequence[Column], keys: Sequence[str]) -> Drawing:
    """Draw metrics of all rows side by side, one point per seed and a bar at the mean."""
    chosen = [column for column in columns if column.key in keys]

    def draw(found: Sequence[Found]) -> Picture | None:
        figure = Figure(figsize=(6.2 * len(chosen), 1.2 + 0.42 * len(found)), layout="constrained")
        for ax, column in zip(figure.subplots(1, len(chosen), squeeze=False)[0], chosen, strict=True):
            _draw_strips(ax, found, column)
        return Picture("by_method.png", figure, "One point per seed, the bar at their mean.")

    return draw


def by_data_weight(columns: Sequence[Column], keys: Sequence[str]) -> Drawing:
    """Draw metrics against λ_data, with forward KL alone as a level."""
    chosen = [column for column in columns if column.key in keys]

    def draw(found: Sequence[Found]) -> Picture | None:
        if not any(_kind(one) != "none" for one in found):
            return None
        figure = Figure(figsize=(6.2 * len(chosen), 4.2), layout="constrained")
        for ax, column in zip(figure.subplots(1, len(chosen), squeeze=False)[0], chosen, strict=True):
            _draw_weights(ax, found, column)
        caption = (
            "Sensitivity to λ_data. Levels: forward KL alone. "
            "Error bars and band: standard deviation over seeds."
        )
        return Picture("data_weight.png", figure, caption)

    return draw


def _series(found: Sequence[Found], column: Column, published: Sequence[Row]) -> list[Series]:
    series = []
    for label in colours(found):
        rows = [one.row for one in found if one.row.label == label and column.key in one.row.values]
        papers = [*rows, *(row for row in published if row.label == label)]
        if len({row.group for row in papers}) < 2:  # a point is no curve
            continue
        values = [[column.scale * v for v in row.values[column.key]] for row in rows]
        series.append(
            Series(
                label,
                [int(row.group) for row in rows],
                [statistics.fmean(v) for v in values],
                [_spread(v) for v in values],
                {int(row.group): row.paper[column.key][0] for row in papers if column.key in row.paper},
            )
        )
    return series


def _draw_strips(ax: Axes, found: Sequence[Found], column: Column) -> None:
    shades = colours(found)
    for height, one in enumerate(reversed(found)):
        values = [column.scale * v for v in one.row.values.get(column.key, [])]
        if values:
            ax.plot(values, [height] * len(values), "o", ms=5, alpha=0.7, color=shades[one.row.label])
            ax.plot([statistics.fmean(values)], [height], "|", ms=22, mew=2.5, color=shades[one.row.label])
    several = len({one.row.group for one in found}) > 1
    names = [f"{one.row.group}: {one.row.label}" if several else one.row.label for one in reversed(found)]
    ax.set_yticks(range(len(found)), names)
    ax.set_xlabel(_plain(column.title))
    ax.grid(alpha=0.3, axis="x")


def _draw_weights(ax: Axes, found: Sequence[Found], column: Column) -> None:
    known = [one for one in found if column.key in one.row.values]
    for kind in dict.fromkeys(map(_kind, known)):
        members = [one for one in known if _kind(one) == kind]
        members.sort(key=lambda one: one.row.label == START)
        values = [[column.scale * v for v in one.row.values[column.key]] for one in members]
        if kind == "none":
            for one, value, dashes in zip(members, values, _LEVELS, strict=False):
                mean, spread = statistics.fmean(value), _spread(value)
                ax.axhline(mean, color="0.3", ls=dashes, label=one.row.label)
                ax.axhspan(mean - spread, mean + spread, color="0.3", alpha=0.15, lw=0)
            continue
        weights = [one.planned.cell.config.objective.data_weight for one in members]
        means, spreads = [statistics.fmean(v) for v in values], [_spread(v) for v in values]
        ax.errorbar(
            weights, means, spreads, marker="o", ms=5, capsize=3, label=f"fwd KL + {dispersion_label(kind)}"
        )
    ax.set_xscale("log")
    ax.set_xlabel("λ_data")
    ax.set_ylabel(_plain(column.title))
    ax.grid(alpha=0.3)
    ax.legend(fontsize=8)


def _kind(one: Found) -> str:
    return one.planned.cell.config.objective.dispersion


def _spread(values: Sequence[float]) -> float:
    return statistics.stdev(values) if len(values) > 1 else 0.0


def _plain(title: str) -> str:
    return title.rstrip(" ↑↓")
