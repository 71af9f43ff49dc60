"""Timings of flows at their tasks, as a table."""

from dataclasses import dataclass
from pathlib import Path

from boltzkit.report import csv_text, markdown_table
from boltzkit.storage import write_bytes

__all__ = ["BOUND", "FlowBenchmark", "FlowTiming"]

BOUND = "matrix products alone"
_NOTE = (
    f"Milliseconds per call, medians of interleaved calls; in brackets the multiple of '{BOUND}': forward and "
    "backward of the architecture's linear layers and nothing else, as they are written. The spline flow can come "
    "below it because it multiplies out its first two layers, between which there is no activation; with bfloat16 "
    "gradients also because two thirds of its products are cheaper than those of the bound. A training step "
    "is the forward KL of one batch, its gradient and an Adam step. TarFlow takes batches of an eighth."
)


@dataclass(frozen=True)
class FlowTiming:
    """Milliseconds of one contender at one task."""

    preset: str
    task: str
    threads: int
    contender: str
    parameters: int
    milliseconds: float


@dataclass(frozen=True)
class FlowBenchmark:
    """All timings of one run."""

    batch: int
    timings: tuple[FlowTiming, ...]

    def ratio(self, timing: FlowTiming, to: str) -> float | None:
        """Return how many times as long a timing takes as another contender at the same task."""
        for other in self.timings:
            same = (other.preset, other.task, other.threads) == (timing.preset, timing.task, timing.threads)
            if same and other.contender == to:
                return timing.milliseconds / other.milliseconds
        return None

    def to_csv(self) -> str:
        """Return one line per timing."""
        return csv_text(
            ["preset", "task", "threads", "contender", "parameters", "milliseconds"],
            (
                [t.preset, t.task, t.threads, t.contender, t.parameters, f"{t.milliseconds:.2f}"]
                for t in self.timings
            ),
        )

    def to_markdown(self) -> str:
        """Return one table."""
        rows = []
        for t in self.timings:
            ratio = self.ratio(t, BOUND)
            brackets = "" if ratio is None else f" ({ratio:.2f}×)"
            numbers = (f"{t.parameters:,}", f"{t.milliseconds:.1f}{brackets}")
            rows.append([t.preset, t.task, t.threads, t.contender, *numbers])
        return markdown_table(["flow", "task", "threads", "contender", "parameters", "ms"], rows)

    def write(self, out: Path) -> None:
        """Write table.md and table.csv."""
        text = f"# Flows of alanine dipeptide, batch {self.batch}\n\n{self.to_markdown()}\n{_NOTE}\n"
        write_bytes(out / "table.md", text.encode())
        write_bytes(out / "table.csv", self.to_csv().encode())
