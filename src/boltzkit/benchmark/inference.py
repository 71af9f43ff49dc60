"""Samples per hour of every flow, all the way to their importance weights: the paper's table of inference speeds."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from boltzkit.benchmark.timing import interleaved, on_threads
from boltzkit.energy import Target, TargetConfig
from boltzkit.ensemble import draw
from boltzkit.flow import (
    SPLINE_PRESETS,
    TARFLOW_PRESETS,
    Flow,
    RealNVPConfig,
    SplineFlowConfig,
    TarFlowConfig,
)
from boltzkit.method.system import MoleculeConfig, build_energy, build_flow_for
from boltzkit.report import csv_text, markdown_table
from boltzkit.storage import write_bytes

__all__ = ["CONTENDERS", "Contender", "InferenceBenchmark", "InferenceTiming", "benchmark_inference"]

_NOTE = (
    "Samples per hour with energies and importance weights, from medians of interleaved calls of untrained flows at "
    "the paper's sizes, whose cost is that of trained ones. Published: one A100 GPU, the largest batch that pays."
)


@dataclass(frozen=True)
class Contender:
    """A flow of the paper on its system, with the published samples per hour."""

    system: TargetConfig | MoleculeConfig
    flow: RealNVPConfig | SplineFlowConfig | TarFlowConfig
    coordinates: str
    published: float | None = None


CONTENDERS: Mapping[str, Contender] = {
    "RealNVP, Gaussian mixture": Contender(TargetConfig(), RealNVPConfig(), "plane"),
    "spline flow, alanine dipeptide": Contender(
        MoleculeConfig(molecule="alanine-dipeptide"), SPLINE_PRESETS["paper"], "internal", 2.8e8
    ),
    "spline flow, alanine hexapeptide": Contender(
        MoleculeConfig(molecule="alanine-hexapeptide"), SPLINE_PRESETS["paper"], "internal", 1.1e8
    ),
    "TarFlow, alanine dipeptide": Contender(
        MoleculeConfig(molecule="alanine-dipeptide-cartesian"), TARFLOW_PRESETS["paper"], "Cartesian", 2.8e7
    ),
}


@dataclass(frozen=True)
class InferenceTiming:
    """One flow on some threads."""

    name: str
    threads: int
    parameters: int
    per_hour: float
    published: float | None


@dataclass(frozen=True)
class InferenceBenchmark:
    """All timings of one run."""

    batch: int
    timings: tuple[InferenceTiming, ...]

    def to_csv(self) -> str:
        """Return one line per timing."""
        return csv_text(
            ["flow", "threads", "parameters", "samples_per_hour", "published_a100"],
            ([t.name, t.threads, t.parameters, f"{t.per_hour:.3g}", t.published or ""] for t in self.timings),
        )

    def to_markdown(self) -> str:
        """Return one table."""
        rows = []
        for t in self.timings:
            published = "" if t.published is None else f"{t.published:.2g}"
            rows.append([t.name, f"{t.parameters:,}", t.threads, f"{t.per_hour:.2g}", published])
        return markdown_table(["flow", "parameters", "threads", "samples / hour", "published, A100"], rows)

    def write(self, out: Path) -> None:
        """Write table.md and table.csv."""
        text = f"# Samples with weights, batch {self.batch}\n\n{self.to_markdown()}\n{_NOTE}\n"
        write_bytes(out / "table.md", text.encode())
        write_bytes(out / "table.csv", self.to_csv().encode())


def benchmark_inference(
    batch: int = 256,
    rounds: int = 5,
    threads: Sequence[int] = (1, 2),
    contenders: Mapping[str, Contender] = CONTENDERS,
    tell: Callable[[str], None] = lambda text: None,
) -> InferenceBenchmark:
    """Time samples with their weights, all flows interleaved."""
    runs: dict[str, Callable[[], object]] = {}
    sizes: dict[str, int] = {}
    for name, one in contenders.items():
        flow = build_flow_for(one.system, one.flow, (0,), batched=False)
        sizes[name] = sum(parameter.numel() for parameter in flow.parameters())
        runs[name] = _drawing(flow, build_energy(one.system), batch)
    timings = []
    for n in threads:
        tell(f"samples with weights, {n} threads")
        with on_threads(n):
            seconds = interleaved(runs, rounds)
        timings += [
            InferenceTiming(name, n, sizes[name], 3600 * batch / value, contenders[name].published)
            for name, value in seconds.items()
        ]
    return InferenceBenchmark(batch, tuple(timings))


def _drawing(flow: Flow, energy: Target, n: int) -> Callable[[], object]:
    return lambda: draw(flow, energy, n, seed=0, chunk=n)
