"""Tables of means over seeds, with the paper's significance marks and its own numbers beside ours."""

import csv
import io
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from scipy import stats

__all__ = ["Column", "Row", "bold_marks", "to_csv", "to_markdown"]


@dataclass(frozen=True)
class Column:
    """One metric of a table."""

    key: str
    title: str
    digits: int
    higher_is_better: bool = False
    scale: float = 1.0


@dataclass(frozen=True)
class Row:
    """One cell's values of every metric, one value per seed, and the paper's mean and spread."""

    group: str
    label: str
    values: dict[str, list[float]]
    paper: dict[str, tuple[float, float]]


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
            p = stats.ttest_ind(values, samples[best], equal_var=False).pvalue
            marks.append(bool(p >= 0.05))
    return marks


def to_markdown(rows: Sequence[Row], columns: Sequence[Column], group_title: str) -> str:
    """Return the table: mean ± standard deviation, bold as the paper does, the paper's values in brackets."""
    titles = [group_title, "method", *(column.title for column in columns)]
    lines = ["| " + " | ".join(titles) + " |", "|" + "---|" * len(titles)]
    for group in dict.fromkeys(row.group for row in rows):
        members = [row for row in rows if row.group == group]
        marks = {
            c.key: bold_marks([row.values[c.key] for row in members], c.higher_is_better) for c in columns
        }
        for i, row in enumerate(members):
            cells = [_cell(row, column, marks[column.key][i]) for column in columns]
            lines.append("| " + " | ".join([group if i == 0 else "", row.label, *cells]) + " |")
    return "\n".join(lines) + "\n"


def to_csv(rows: Sequence[Row], columns: Sequence[Column]) -> str:
    """Return one line per cell: mean, standard deviation, number of seeds, the paper's mean and deviation."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    names = [f"{c.key}_{part}" for c in columns for part in ("mean", "sd", "paper_mean", "paper_sd")]
    writer.writerow(["group", "method", "seeds", *names])
    for row in rows:
        numbers: list[str] = []
        for column in columns:
            mean, spread = _moments(row.values[column.key])
            paper = row.paper.get(column.key)
            numbers += [f"{mean * column.scale:.6g}"]
            numbers += ["" if spread is None else f"{spread * column.scale:.4g}"]
            numbers += ["", ""] if paper is None else [f"{paper[0]:g}", f"{paper[1]:g}"]
        seeds = len(next(iter(row.values.values())))
        writer.writerow([row.group, row.label, seeds, *numbers])
    return buffer.getvalue()


def _moments(values: Sequence[float]) -> tuple[float, float | None]:
    """Return mean and standard deviation; a single seed has none."""
    return statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else None


def _cell(row: Row, column: Column, bold: bool) -> str:
    mean, spread = _moments(row.values[column.key])
    text = f"{mean * column.scale:.{column.digits}f}"
    if spread is not None:
        text += f" ± {spread * column.scale:.{column.digits}f}"
    text = f"**{text}**" if bold else text
    paper = row.paper.get(column.key)
    return text if paper is None else f"{text} ({paper[0]:.{column.digits}f} ± {paper[1]:.{column.digits}f})"
