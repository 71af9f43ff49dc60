"""Tables of means over seeds, with the paper's significance marks and its own numbers beside ours."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from scipy import stats

from boltzkit.report import csv_text, markdown_table

__all__ = [
    "Column",
    "Published",
    "Row",
    "bold_marks",
    "published_text",
    "read_values",
    "to_csv",
    "to_markdown",
]

Published = tuple[float, float | None]
"""A mean of the paper and its spread, where it tells one."""


@dataclass(frozen=True)
class Column:
    """One metric of a table.

    Args:
        key: its short name.
        title: the head of the column.
        digits: behind the point.
        higher_is_better: which end is bold.
        scale: factor on values, 100 for percent.
        path: where an evaluation has it, such as ``reverse.ess_clipped``.
        ranked: whether one end is better at all; otherwise nothing is bold.
    """

    key: str
    title: str
    digits: int
    higher_is_better: bool = False
    scale: float = 1.0
    path: str = ""
    ranked: bool = True

    def read(self, evaluation: Mapping[str, Any]) -> float | None:
        """Return the value of one run, None where it has none."""
        found: Any = evaluation
        for name in self.path.split("."):
            found = found.get(name) if isinstance(found, Mapping) else None
        return None if found is None else float(found)


@dataclass(frozen=True)
class Row:
    """One cell's values of its metrics, one value per seed, and the paper's mean and spread.

    A metric that some seed has no value of (not measured, or not finite) is missing altogether: a mean over the
    other seeds would flatter.
    """

    group: str
    label: str
    values: dict[str, list[float]]
    paper: Mapping[str, Published]


def read_values(columns: Sequence[Column], runs: Sequence[Mapping[str, Any]]) -> dict[str, list[float]]:
    """Return the metrics that all runs have."""
    found = {column.key: [column.read(run) for run in runs] for column in columns}
    return {key: [v for v in values if v is not None] for key, values in found.items() if None not in values}


def bold_marks(samples: Sequence[Sequence[float]], higher_is_better: bool) -> list[bool]:
    """Mark what is not significantly different from the best mean (two-sided Welch's t-test, α = 0.05).

    >>> bold_marks([[1.0, 1.1, 0.9], [1.02, 1.1, 0.95], [3.0, 3.1, 2.9]], higher_is_better=False)
    [True, True, False]
    """
    means = [statistics.fmean(values) for values in samples]
    best = (max if higher_is_better else min)(range(len(means)), key=means.__getitem__)
    marks = []
    for i, values in enumerate(samples):
        if i == best or len(values) < 2 or len(samples[best]) < 2:
            marks.append(i == best)
        elif statistics.stdev(values) == 0 and statistics.stdev(samples[best]) == 0:
            marks.append(means[i] == means[best])
        else:
            marks.append(_welch(values, samples[best]) >= 0.05)
    return marks


def _welch(one: Sequence[float], other: Sequence[float]) -> float:
    """Return the p-value; from moments, because the test on samples warns where seeds agree to the last digits."""
    moments = [(statistics.fmean(v), statistics.stdev(v), len(v)) for v in (one, other)]
    return float(stats.ttest_ind_from_stats(*moments[0], *moments[1], equal_var=False).pvalue)


def to_markdown(rows: Sequence[Row], columns: Sequence[Column], group_title: str) -> str:
    """Return the table: mean ± standard deviation, bold as the paper does, the paper's values in brackets."""
    titles = [group_title, "method", *(column.title for column in columns)]
    lines = []
    for group in dict.fromkeys(row.group for row in rows):
        members = [row for row in rows if row.group == group]
        marks = {column.key: _marks(members, column) for column in columns}
        for i, row in enumerate(members):
            cells = [_cell(row, column, marks[column.key][i]) for column in columns]
            lines.append([group if i == 0 else "", row.label, *cells])
    return markdown_table(titles, lines)


def to_csv(rows: Sequence[Row], columns: Sequence[Column]) -> str:
    """Return one line per cell: mean, standard deviation, number of seeds, the paper's mean and deviation."""
    names = [f"{c.key}_{part}" for c in columns for part in ("mean", "sd", "paper_mean", "paper_sd")]
    lines = []
    for row in rows:
        numbers: list[str] = []
        for column in columns:
            paper = row.paper.get(column.key)
            numbers += _numbers(row.values.get(column.key), column.scale)
            numbers += ["", ""] if paper is None else ["" if part is None else f"{part:g}" for part in paper]
        seeds = max(map(len, row.values.values()), default=0)
        lines.append([row.group, row.label, seeds, *numbers])
    return csv_text(["group", "method", "seeds", *names], lines)


def _marks(rows: Sequence[Row], column: Column) -> list[bool]:
    """Mark the best of a block among the rows that have the metric."""
    known = [i for i, row in enumerate(rows) if column.key in row.values]
    marks = [False] * len(rows)
    if known and column.ranked:
        found = bold_marks([rows[i].values[column.key] for i in known], column.higher_is_better)
        for i, mark in zip(known, found, strict=True):
            marks[i] = mark
    return marks


def _numbers(values: Sequence[float] | None, scale: float) -> list[str]:
    if values is None:
        return ["", ""]
    mean, spread = _moments(values)
    return [f"{mean * scale:.6g}", "" if spread is None else f"{spread * scale:.4g}"]


def _moments(values: Sequence[float]) -> tuple[float, float | None]:
    """Return mean and standard deviation; a single seed has none."""
    return statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else None


def _cell(row: Row, column: Column, bold: bool) -> str:
    text = "–"
    if column.key in row.values:
        mean, spread = _moments(row.values[column.key])
        text = f"{mean * column.scale:.{column.digits}f}"
        if spread is not None:
            text += f" ± {spread * column.scale:.{column.digits}f}"
    text = f"**{text}**" if bold else text
    paper = row.paper.get(column.key)
    return text if paper is None else f"{text} ({published_text(paper, column.digits)})"


def published_text(number: Published, digits: int) -> str:
    """Return a number of the paper as tables show it."""
    mean, spread = number
    return f"{mean:.{digits}f}" if spread is None else f"{mean:.{digits}f} ± {spread:.{digits}f}"
