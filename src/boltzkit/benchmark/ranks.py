"""Weak scaling: whole trainings under torchrun with as much work for every rank, on more and more ranks."""

import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from matplotlib.figure import Figure

from boltzkit.benchmark.reading import write_noise
from boltzkit.errors import UserError
from boltzkit.molecule import find_molecule
from boltzkit.report import csv_text, markdown_table, png
from boltzkit.storage import write_bytes
from boltzkit.training import RunFolder

__all__ = ["RankBenchmark", "RankTiming", "benchmark_ranks"]

_MOLECULE = "alanine-dipeptide"
_STEPS, _FIRST = 60, 20
"""Steps of a training, and those on data before the clock counts."""
_STAGES = 2
_DATA, _CMT = "forward KL + LDR-L1", "CMT + LDR-L1"
_RECIPES = {_DATA: "unbiased", _CMT: "cmt"}
_NOTE = (
    "Weak scaling: the batch, and the evaluations of CMT, grow with the ranks, so that every rank has as much to do as "
    "one alone and a perfect machine needs the same time for a step. Milliseconds of the clock on the wall, medians "
    "over rounds in which every number of ranks trains once; in brackets the time of one rank over this. Each rank "
    "has one thread, and ranks speak by gloo through this machine's memory. The times of CMT contain its buffers: "
    "samples, energies and weights. Ranks beyond the processors, and other work beside them, make it slower."
)


@dataclass(frozen=True)
class RankTiming:
    """One training: how long a step took."""

    method: str
    ranks: int
    milliseconds: float


@dataclass(frozen=True)
class RankBenchmark:
    """All trainings of one run.

    Attributes:
        timings: one for each method, number of ranks and round.
        batch: samples of a step for each rank.
    """

    timings: tuple[RankTiming, ...]
    batch: int

    def milliseconds(self, method: str, ranks: int) -> float:
        """Return the median over rounds."""
        found = [t.milliseconds for t in self.timings if (t.method, t.ranks) == (method, ranks)]
        return statistics.median(found)

    def efficiency(self, method: str, ranks: int) -> float:
        """Return the time of a step of one rank over that of several with as much to do each; 1 is perfect."""
        return self.milliseconds(method, 1) / self.milliseconds(method, ranks)

    @property
    def methods(self) -> list[str]:
        """What was trained."""
        return list(dict.fromkeys(t.method for t in self.timings))

    @property
    def ranks(self) -> list[int]:
        """Numbers of ranks."""
        return sorted({t.ranks for t in self.timings})

    def to_csv(self) -> str:
        """Return one line per training."""
        return csv_text(
            ["method", "ranks", "batch", "milliseconds"],
            ([t.method, t.ranks, t.ranks * self.batch, f"{t.milliseconds:.2f}"] for t in self.timings),
        )

    def to_markdown(self) -> str:
        """Return one table: a row for each method, a column for each number of ranks."""
        head = ["ms a step", *(f"{n} rank{'s' * (n > 1)}, batch {n * self.batch:,}" for n in self.ranks)]
        rows = []
        for method in self.methods:
            cells = [
                f"{self.milliseconds(method, n):.1f} ({self.efficiency(method, n):.2f})" for n in self.ranks
            ]
            rows.append([method, *cells])
        return markdown_table(head, rows)

    def figure(self) -> Figure:
        """Return efficiency against the number of ranks, the rounds as points."""
        figure = Figure(figsize=(5, 3.5), layout="constrained")
        ax = figure.subplots()
        for method in self.methods:
            line = ax.plot(self.ranks, [self.efficiency(method, n) for n in self.ranks], "o-", label=method)
            alone = self.milliseconds(method, 1)
            own = [t for t in self.timings if t.method == method]
            ax.scatter(
                [t.ranks for t in own], [alone / t.milliseconds for t in own], s=8, color=line[0].get_color()
            )
        ax.axhline(1.0, color="0.6", lw=1, ls="--")
        ax.set_xticks(self.ranks)
        ax.set_ylim(0, None)
        ax.set_xlabel("ranks")
        ax.set_ylabel("efficiency at equal work per rank")
        ax.legend(frameon=False)
        return figure

    def write(self, out: Path) -> None:
        """Write table.md, table.csv and ranks.png."""
        text = f"# Training on several ranks: {_MOLECULE}\n\n{self.to_markdown()}\n{_NOTE}\n"
        write_bytes(out / "table.md", text.encode())
        write_bytes(out / "table.csv", self.to_csv().encode())
        write_bytes(out / "ranks.png", png(self.figure()))


def benchmark_ranks(
    ranks: Sequence[int] | None = None,
    batch: int = 512,
    rounds: int = 3,
    *,
    settings: Mapping[str, str] | None = None,
    tell: Callable[[str], None] = lambda text: None,
) -> RankBenchmark:
    """Train alanine dipeptide by LDR-L1 on data and by CMT, on every number of ranks in turn.

    Args:
        ranks: numbers of ranks; 1, 2, 4, … up to the processors of this machine by default.
        batch: samples of a step for each rank.
        rounds: how often each training is timed.
        settings: of the trainings, beside those that are measured; the flow is the recipe's.
        tell: takes progress.
    """
    counts = sorted({1, *(_doubled(os.cpu_count() or 1) if ranks is None else ranks)})
    timings: list[RankTiming] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_noise(find_molecule(_MOLECULE), 20 * batch * counts[-1], folder / "data")
        for number in range(rounds):
            for n in counts:
                for method, options in _trainings(folder / "data", n, batch).items():
                    tell(f"round {number + 1} of {rounds}: {method} on {n} ranks")
                    out = folder / f"{number}-{n}-{len(timings)}"
                    values = {**options, **(settings or {})}
                    timings.append(RankTiming(method, n, _timed(method, values, n, out)))
    return RankBenchmark(tuple(timings), batch)


def _doubled(most: int) -> list[int]:
    return [2**k for k in range(most.bit_length()) if 2**k <= most]


def _trainings(data: Path, ranks: int, batch: int) -> dict[str, dict[str, str]]:
    """Return the settings of each method's training."""
    common = {
        "training.steps": f"{_STEPS}",
        "training.batch": f"{ranks * batch}",
        "training.log_every": f"{_FIRST}",
        "training.validate_every": f"{_STEPS}",
        "training.checkpoint_every": f"{_STEPS}",
    }
    annealing = {
        "annealing.stages": f"{_STAGES}",
        "annealing.pretraining": "0",
        "annealing.evaluations": f"{_STAGES * 20 * batch * ranks}",
        "annealing.effective": "100",
    }
    return {
        _DATA: {**common, "data.path": str(data)},
        _CMT: {**common, **annealing},
    }


def _timed(method: str, settings: Mapping[str, str], ranks: int, out: Path) -> float:
    """Train as a user would, and return the milliseconds of a step after the first ones."""
    launch = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", f"{ranks}"]
    options = [part for key, value in settings.items() for part in ("--set", f"{key}={value}")]
    train = ["-m", "boltzkit", "train", _RECIPES[method], "--out", str(out), *options]
    home = Path(__file__).parents[2]
    path = os.pathsep.join(filter(None, [str(home), os.environ.get("PYTHONPATH")]))
    ended = subprocess.run(
        [sys.executable, *launch, *train],
        env=os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": path},
        capture_output=True,
        text=True,
    )
    if ended.returncode:
        said = (ended.stderr or ended.stdout).strip().splitlines()
        raise UserError(f"Training on {ranks} ranks failed: {said[0] if said else 'it did not say why'}")
    lines = RunFolder(out).metrics()
    # A buffer belongs to the steps that learn from it, the first one too; else the first steps only warm up.
    start = {"step": 0, "seconds": 0.0} if method == _CMT else lines[0]
    seconds, steps = (float(lines[-1][key]) - start[key] for key in ("seconds", "step"))
    return 1e3 * seconds / steps
