"""How costs grow: every stage against the number of atoms, the handling of data against the number of samples."""

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from boltzkit.benchmark.growth_stages import MEMORY
from boltzkit.report import csv_text, markdown_table, png
from boltzkit.storage import write_bytes
from boltzkit.workers import Item, WorkerOptions, open_workers, run_items

__all__ = ["SEQUENCES", "GrowthBenchmark", "Measured", "benchmark_growth"]

SEQUENCES = tuple("-".join(["ACE", *["ALA"] * n, "NME"]) for n in (1, 3, 6, 10, 16, 29))
"""Poly-alanine of 22 to 302 atoms, in Amber ff99SB-ILDN with OBC2."""
_SAMPLES = (10_000, 100_000, 1_000_000, 10_000_000)
_SECONDS = 240.0
"""A dataset that would take longer than this is left out."""
_NOTE = (
    "Slope: of log cost against log size by least squares, over all sizes and over the largest three. Costs against "
    "atoms are microseconds of one processor per sample where nothing else is said, medians on one thread; those of "
    "data are of the clock on the wall. Every molecule and every dataset has a process of its own. Flows are "
    "untrained, which costs the same; TarFlow is of the preset 'small'. Files of the datasets were in the memory of "
    "the operating system when they were read."
)


@dataclass(frozen=True)
class Measured:
    """What a stage costs at one size.

    Args:
        against: ``atoms`` or ``samples``.
        stage: what was measured, with its unit where it is not microseconds per sample.
        size: atoms or samples.
        value: the cost.
    """

    against: str
    stage: str
    size: int
    value: float


@dataclass(frozen=True)
class GrowthBenchmark:
    """All measurements of one run.

    Attributes:
        measured: one for each stage and size.
        flow: the flow's preset.
        batch: samples per call.
        left_out: sentences on what was not measured.
    """

    measured: tuple[Measured, ...]
    flow: str
    batch: int
    left_out: tuple[str, ...] = ()

    def slope(self, against: str, stage: str, largest: int | None = None) -> float | None:
        """Return d log cost / d log size by least squares, over the largest sizes if asked; None for one size."""
        points = self._points(against, stage)[-(largest or 0) :]
        if len(points) < 2 or any(value <= 0 for _, value in points):
            return None
        size, value = np.log(np.array(points, dtype=float)).T
        return float(np.polyfit(size, value, 1)[0])

    def stages(self, against: str) -> list[str]:
        """Return the stages that were measured against atoms or samples."""
        return list(dict.fromkeys(m.stage for m in self.measured if m.against == against))

    def to_csv(self) -> str:
        """Return one line per measurement."""
        return csv_text(
            ["against", "stage", "size", "value"],
            ([m.against, m.stage, m.size, f"{m.value:.4g}"] for m in self.measured),
        )

    def to_markdown(self) -> str:
        """Return a table against atoms, one against samples, and what was left out."""
        tables = [self._table(against) for against in ("atoms", "samples") if self.stages(against)]
        return "\n".join([*tables, *(f"{sentence}\n" for sentence in self.left_out)])

    def figure(self) -> Figure:
        """Return time against atoms, memory against atoms, and data handling against samples, all log-log."""
        figure = Figure(figsize=(12, 5), layout="constrained")
        memory = [stage for stage in self.stages("atoms") if stage == MEMORY]
        times = [stage for stage in self.stages("atoms") if " / " not in stage]
        panels = (
            ("atoms", times, "µs per sample"),
            ("atoms", memory, "MB"),
            ("samples", [s for s in self.stages("samples") if s.endswith("/ s")], "s"),
        )
        for ax, (against, stages, unit) in zip(figure.subplots(1, 3), panels, strict=True):
            for stage in stages:
                slope = self.slope(against, stage, largest=3)
                shown = "" if slope is None else f"  ({slope:.1f})"
                points = self._points(against, stage)
                ax.loglog(*zip(*points, strict=True), "o-", ms=4, label=stage.split(" / ")[0] + shown)
            ax.set_xlabel(f"{against} (in brackets: slope of the largest three)")
            ax.set_ylabel(unit)
            ax.grid(alpha=0.3)
            if against == "atoms" and stages:
                atoms = [size for size, _ in self._points(against, stages[0])]
                ax.set_xticks(atoms, [str(n) for n in atoms])
                ax.set_xticks([], minor=True)
            if stages:
                ax.legend(fontsize=8, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2, frameon=False)
        return figure

    def write(self, out: Path) -> None:
        """Write table.md, table.csv and growth.png."""
        title = f"# How costs grow: spline flow '{self.flow}', batch {self.batch}"
        write_bytes(out / "table.md", f"{title}\n\n{self.to_markdown()}\n{_NOTE}\n".encode())
        write_bytes(out / "table.csv", self.to_csv().encode())
        write_bytes(out / "growth.png", png(self.figure()))

    def _points(self, against: str, stage: str) -> list[tuple[int, float]]:
        return sorted((m.size, m.value) for m in self.measured if (m.against, m.stage) == (against, stage))

    def _table(self, against: str) -> str:
        sizes = sorted({m.size for m in self.measured if m.against == against})
        head = [against, *(f"{size:,}" for size in sizes), "slope", "largest three"]
        rows = []
        for stage in self.stages(against):
            value = dict(self._points(against, stage))
            cells = [f"{value[size]:.3g}" if size in value else "" for size in sizes]
            slopes = [self.slope(against, stage), self.slope(against, stage, 3)]
            shown = ["" if slope is None else f"{slope:.2f}" for slope in slopes]
            rows.append([stage, *cells, *shown])
        return markdown_table(head, rows, align="l" + "r" * (len(head) - 1))


def benchmark_growth(
    molecules: Sequence[str] | None = None,
    batch: int = 256,
    rounds: int = 3,
    *,
    samples: Sequence[int] = _SAMPLES,
    preset: str = "paper",
    folder: Path = Path("."),
    tell: Callable[[str], None] = lambda text: None,
) -> GrowthBenchmark:
    """Measure all stages on molecules of growing size, and datasets of the first of them.

    Args:
        molecules: names or sequences, the smallest first; `SEQUENCES` by default.
        batch: samples per call.
        rounds: how often each stage is timed.
        samples: sizes of the datasets. One that would not fit half of the free disk, or take too long, is left out.
        preset: of the spline flow.
        folder: below which datasets live while they are measured; about 300 bytes per sample of alanine dipeptide.
        tell: called with a line at a time.
    """
    measured: list[Measured] = []
    molecules = SEQUENCES if molecules is None else molecules
    for name in molecules:
        found = _in_a_process(
            "measure_molecule",
            name,
            {"molecule": name, "preset": preset, "batch": batch, "rounds": rounds},
        )
        tell(f"{found['atoms']} atoms, a flow of {found['parameters']:,} parameters")
        measured += [Measured("atoms", stage, found["atoms"], v) for stage, v in found["values"].items()]
    left_out: list[str] = []
    folder.mkdir(parents=True, exist_ok=True)
    for n in samples:
        reason = _too_much(n, min(m.size for m in measured), measured, folder)
        if reason is not None:
            left_out.append(f"{n:,} samples were left out: {reason}.")
            tell(left_out[-1])
            continue
        tell(f"{n:,} samples")
        arguments = {"molecule": molecules[0], "samples": n, "folder": str(folder.resolve())}
        values = _in_a_process("measure_data", f"{n:,} samples", arguments)
        measured += [Measured("samples", stage, n, value) for stage, value in values.items()]
    return GrowthBenchmark(tuple(measured), preset, batch, tuple(left_out))


def _in_a_process(function: str, label: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """Measure in a process that has measured nothing before: its peak memory is that of this work."""
    found: list[dict[str, Any]] = []
    item = Item("measurement", label, f"boltzkit.benchmark.growth_stages:{function}", arguments)
    with open_workers(WorkerOptions(tries=1)) as workers:
        run_items(workers, [item], lambda item, result: found.append(result))
    return found[0]


def _too_much(n: int, atoms: int, measured: Sequence[Measured], folder: Path) -> str | None:
    """Return why a dataset of so many samples is not measured, judged by the one before."""
    need, free = n * (12 * atoms + 24), shutil.disk_usage(folder).free
    if need > free / 2:
        return f"they take {need / 1e9:.3g} GB, and {free / 1e9:.3g} GB are free"
    before = max((m.size for m in measured if m.against == "samples"), default=0)
    spent = sum(
        m.value for m in measured if m.against == "samples" and m.size == before and m.stage.endswith("/ s")
    )
    expected = spent * n / before if before else 0.0
    return f"they would take about {expected:.0f} s" if expected > _SECONDS else None
