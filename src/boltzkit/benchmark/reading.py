"""Reading batches from a dataset on disk: in windows, as training does, against memory and against single rows."""

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from boltzkit.benchmark.timing import interleaved, on_threads
from boltzkit.data import About, Dataset, DatasetWriter, EpochBatches, StoredBatches, load_labelled
from boltzkit.molecule import Molecule, find_molecule
from boltzkit.randomness import generator
from boltzkit.report import csv_text, markdown_table
from boltzkit.storage import write_bytes

__all__ = ["ReadingBenchmark", "ReadingTiming", "benchmark_reading", "write_noise"]

WINDOWS, MEMORY, ROWS = "windows, as training does", "all in memory", "rows at random"
_TEMPERATURE = 300.0
_WINDOW = 236
"""Batches of 1,024 in one window of alanine dipeptide: a round reads about one window, its loading included."""
_SHARD = 100_000
_NOTE = (
    "Milliseconds per batch with energies, medians of interleaved rounds of about one window each, on one thread; in "
    "brackets the multiple of the dataset in memory, which is what a large one cannot be. 'Rows at random' reads every "
    "row of a batch from the memory map where it lies. The file is in the cache of the operating system, so that the "
    "disk's own speed is not part of this."
)


@dataclass(frozen=True)
class ReadingTiming:
    """One way of reading."""

    contender: str
    milliseconds: float


@dataclass(frozen=True)
class ReadingBenchmark:
    """All ways of one run."""

    samples: int
    batch: int
    megabytes: float
    timings: tuple[ReadingTiming, ...]

    def ratio(self, timing: ReadingTiming, to: str = MEMORY) -> float:
        """Return how many times as long as another way."""
        other = next(one for one in self.timings if one.contender == to)
        return timing.milliseconds / other.milliseconds

    def to_csv(self) -> str:
        """Return one line per way."""
        same = (self.samples, self.batch, f"{self.megabytes:.0f}")
        return csv_text(
            ["samples", "batch", "megabytes", "contender", "milliseconds"],
            ([*same, t.contender, f"{t.milliseconds:.4f}"] for t in self.timings),
        )

    def to_markdown(self) -> str:
        """Return one table."""
        same = (f"{self.samples:,}", f"{self.megabytes:.0f}")
        return markdown_table(
            ["samples", "MB", "way", "ms a batch"],
            ([*same, t.contender, f"{t.milliseconds:.3f} ({self.ratio(t):.1f}×)"] for t in self.timings),
        )

    def write(self, out: Path) -> None:
        """Write table.md and table.csv."""
        text = f"# Reading batches of {self.batch}\n\n{self.to_markdown()}\n{_NOTE}\n"
        write_bytes(out / "table.md", text.encode())
        write_bytes(out / "table.csv", self.to_csv().encode())


def benchmark_reading(
    samples: int = 500_000,
    batch: int = 1024,
    rounds: int = 5,
    tell: Callable[[str], None] = lambda text: None,
) -> ReadingBenchmark:
    """Write a dataset of alanine dipeptide to a temporary folder and read shuffled batches of it in three ways.

    Args:
        samples: of the dataset; 0.27 MB per thousand.
        batch: samples per step.
        rounds: how often each way is timed.
        tell: takes progress.
    """
    molecule = find_molecule("alanine-dipeptide")
    with tempfile.TemporaryDirectory() as folder, on_threads(1):
        tell(f"reading: a dataset of {samples:,} samples")
        split = write_noise(molecule, samples, Path(folder)).split("train")
        size = sum(path.stat().st_size for path in Path(folder).rglob("*.npy")) / 1e6
        in_memory = load_labelled(split, _TEMPERATURE).to("cpu", torch.float32)
        n = max(1, min(_WINDOW, samples // batch))
        ways: dict[str, Callable[[int], object]] = {
            WINDOWS: StoredBatches(split, batch, (0,), _TEMPERATURE),
            MEMORY: EpochBatches(in_memory, batch, (0,)),
            ROWS: _Rows(split, batch),
        }
        tell("reading: timing")
        seconds = interleaved({name: _Round(way, n) for name, way in ways.items()}, rounds)
    timings = tuple(ReadingTiming(name, 1e3 * value / n) for name, value in seconds.items())
    return ReadingBenchmark(samples, batch, size, timings)


class _Round:
    """Reads n batches at a call, going on where the last call ended."""

    def __init__(self, way: Callable[[int], object], n: int) -> None:
        self.way, self.n, self.step = way, n, 0

    def __call__(self) -> None:
        for step in range(self.step, self.step + self.n):
            self.way(step)
        self.step += self.n


class _Rows:
    """Batches of rows at random, each read where it lies."""

    def __init__(self, dataset: Dataset, batch: int) -> None:
        self.dataset, self.batch = dataset, batch

    def __call__(self, step: int) -> object:
        rows = torch.randint(len(self.dataset), (self.batch,), generator=generator(0, "rows", step)).numpy()
        return self.dataset.positions(rows), self.dataset.energy(rows)


def write_noise(molecule: Molecule, samples: int, folder: Path) -> Dataset:
    """Write noise about the minimised structure; what it is does not matter to a reader."""
    about = About.of(molecule, _TEMPERATURE, source={"protocol": "noise about the minimum"})
    noise = torch.randn(min(samples, _SHARD), molecule.n_atoms, 3, generator=generator(0, "reading"))
    x = (molecule.positions.float() + 0.005 * noise).numpy()
    with DatasetWriter(folder, about) as writer:
        for number, start in enumerate(range(0, samples, _SHARD)):
            n = min(_SHARD, samples - start)
            columns = {
                "positions": x[:n],
                "energy": np.zeros(n),
                "trajectory": np.full(n, number),
                "frame": np.arange(n),
            }
            writer.append(f"part {number}", "train", columns)
    return Dataset.open(folder, molecule)
