"""What the Gaussian-mixture reproduction leaves behind: table.md, table.csv, pictures, report.html."""

import statistics
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from boltzkit.method import RunConfig, training_data
from boltzkit.method.system import build_energy
from boltzkit.report import (
    DensityGrid,
    Page,
    Series,
    draw_by_size,
    draw_density,
    draw_log_weight,
    draw_samples,
    png,
)
from boltzkit.reproduce.table import Column, Row, to_csv, to_markdown
from boltzkit.storage import read_json, write_bytes

__all__ = ["write_report"]

COLUMNS = (
    Column("nll", "NLL ↓", 3),
    Column("nll_gap", "NLL − target's ↓", 4),
    Column("ess", "ESS / % ↑", 2, higher_is_better=True, scale=100),
    Column("ess_raw", "raw ESS / % ↑", 2, higher_is_better=True, scale=100),
    Column("forward_ess", "forward ESS / % ↑", 2, higher_is_better=True, scale=100),
)

_EXPLANATION = (
    "Mean ± standard deviation over independent experiments (own training data and start each), the published "
    "values in brackets. Bold: not significantly different from the best of its block (two-sided Welch's t-test, "
    "α = 0.05). ESS: reverse, from fresh model samples, the largest 0.01 % of the weights clipped; raw ESS without "
    "clipping; forward ESS on the test set. NLL − target's: difference to the exact target's NLL on the same test "
    "samples, an estimate of KL(p‖q) without the test set's noise."
)


def write_report(out: Path, scale: str, rows: Sequence[Row], keys: Sequence[str]) -> Path:
    """Write all files and return the path of report.html."""
    markdown = to_markdown(rows, COLUMNS, "samples")
    write_bytes(
        out / "table.md", f"# Gaussian mixture, scale {scale}\n\n{markdown}\n{_EXPLANATION}\n".encode()
    )
    write_bytes(out / "table.csv", to_csv(rows, COLUMNS).encode())
    page = Page("Log-dispersion regularization on the Gaussian mixture")
    page.text(_summary(rows))
    lines = [line.strip("| ").split(" | ") for line in markdown.splitlines()]
    titles, body = lines[0], [_padded(line, len(lines[0])) for line in lines[2:]]
    page.table(titles, body)
    page.text(_EXPLANATION, note=True)
    pictures = {"density.png": _density_figure(out, rows, keys)}
    if len({row.group for row in rows}) > 1:
        pictures["ess.png"] = _ess_figure(rows)
    captions = {
        "density.png": "Above: learned log-densities (first seed, smallest data set). Below: log importance "
        "weight log p − log q where the target has mass; white is perfect, red is where the model has too little.",
        "ess.png": "ESS against the number of training samples; open diamonds: published values.",
    }
    for name, figure in pictures.items():
        content = png(figure)
        write_bytes(out / name, content)
        page.picture(content, captions[name])
    page.write(out / "report.html")
    return out / "report.html"


def _padded(cells: list[str], width: int) -> list[str]:
    """Give a row back the empty first cell that stripping its border took away."""
    return [""] * (width - len(cells)) + cells


def _summary(rows: Sequence[Row]) -> str:
    """Return the result in one sentence: the best regularised row against plain forward KL, smallest data."""
    members = [row for row in rows if row.group == rows[0].group]
    means = {row.label: 100 * statistics.fmean(row.values["ess"]) for row in members}
    regularised = [label for label in means if "LDR" in label]
    if not regularised or "fwd KL" not in means:
        return "The cells that are finished so far."
    best = max(regularised, key=means.__getitem__)
    return (
        f"From {rows[0].group} samples, {best} reaches an effective sample size of {means[best]:.1f} %, "
        f"forward KL alone {means['fwd KL']:.1f} %: the energies of the training samples, which cost nothing "
        "extra, flatten the importance weights."
    )


def _density_figure(out: Path, rows: Sequence[Row], keys: Sequence[str]) -> Figure:
    members = [(row, key) for row, key in zip(rows, keys, strict=True) if row.group == rows[0].group]
    figure = Figure(figsize=(2.5 * (len(members) + 1), 5.2), layout="constrained")
    axes = figure.subplots(2, len(members) + 1, squeeze=False)
    for column, (row, key) in enumerate(members, start=1):
        with np.load(out / "cells" / f"{key}.npz", allow_pickle=False) as stored:
            target = DensityGrid(stored["axis"], stored["log_target"])
            model = DensityGrid(stored["axis"], stored["log_prob"])
        draw_density(axes[0, 0], target, "target")
        draw_density(axes[0, column], model, row.label)
        ess = 100 * row.values["ess"][0]
        draw_log_weight(axes[1, column], target, model, f"log p − log q (ESS {ess:.1f} %)")
    _draw_training_samples(axes[1, 0], out / "cells" / f"{keys[0]}.json", float(target.axis[-1]))
    return figure


def _draw_training_samples(ax: Axes, cell: Path, half_width: float) -> None:
    """Draw what the first seed of a cell was trained on; its draw follows from the settings."""
    question = read_json(cell)["question"]
    config = RunConfig.parse(question["config"] | {"seed": question["seeds"][0]}, source=str(cell))
    data = training_data(config, build_energy(config.target))
    draw_samples(ax, data.x.numpy(), half_width, f"{data.size} training samples")


def _ess_figure(rows: Sequence[Row]) -> Figure:
    figure = Figure(figsize=(6.2, 4.2), layout="constrained")
    series = []
    for label in dict.fromkeys(row.label for row in rows):
        members = [row for row in rows if row.label == label]
        values = [[100 * v for v in row.values["ess"]] for row in members]
        series.append(
            Series(
                label,
                [int(row.group) for row in members],
                [statistics.fmean(v) for v in values],
                [statistics.stdev(v) if len(v) > 1 else 0.0 for v in values],
                {int(row.group): row.paper["ess"][0] for row in members if "ess" in row.paper},
            )
        )
    draw_by_size(figure.subplots(), series, "ESS / %")
    return figure
