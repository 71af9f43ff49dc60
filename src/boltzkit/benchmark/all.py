"""All timings in one go and on one page: headline ratios with their spread over repeats, then every table."""

import math
import re
import statistics
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from boltzkit.benchmark.energy import EnergyBenchmark, benchmark_energy
from boltzkit.benchmark.flow import benchmark_flow
from boltzkit.benchmark.flow_table import BOUND, FlowBenchmark
from boltzkit.benchmark.growth import SEQUENCES, GrowthBenchmark, benchmark_growth
from boltzkit.benchmark.inference import InferenceBenchmark, benchmark_inference
from boltzkit.benchmark.reach import METHODS, ReachBenchmark, benchmark_reach
from boltzkit.benchmark.reading import WINDOWS, ReadingBenchmark, benchmark_reading
from boltzkit.benchmark.simulate import OPENMM, SimulationBenchmark, benchmark_simulate
from boltzkit.report import Page, markdown_table
from boltzkit.storage import write_bytes

__all__ = ["PARTS", "AllBenchmarks", "Headline", "Part", "Result", "benchmark_all"]

Tell = Callable[[str], None]
_QUICK = (
    "A quick run, which shows that everything works: its numbers are not for quoting. Few rounds scatter, small "
    "batches are slow, dynamics are followed for 20 ps, much shorter than they remember, so that ratios of simulations "
    "come out far too low, and exponents are those of small molecules."
)


class Result(Protocol):
    """What every benchmark returns."""

    def to_markdown(self) -> str:
        """Return its tables."""
        ...

    def write(self, out: Path) -> None:
        """Write its files."""
        ...


@dataclass(frozen=True)
class Headline:
    """One number of a benchmark that is worth repeating, most often a ratio."""

    name: str
    value: float
    unit: str = "×"


@dataclass(frozen=True)
class Part:
    """One benchmark of the page.

    Args:
        title: its heading.
        run: (quick, with other libraries, progress) -> its result.
        headlines: what of the result goes to the top of the page.
        once: run in the first repeat alone, because it takes long, and repeats itself or measures slopes, which scatter
            little.
    """

    title: str
    run: Callable[[bool, bool, Tell], Result]
    headlines: Callable[[Result], list[Headline]]
    once: bool = False


def _energy(quick: bool, opponents: bool, tell: Tell) -> EnergyBenchmark:
    names = ["alanine-dipeptide-cartesian", "alanine-hexapeptide"]
    if quick:
        return benchmark_energy(names, batch=1024, rounds=3, compiled=False, tell=tell)
    return benchmark_energy([*names, "-".join(["ACE", *["ALA"] * 12, "NME"])], rounds=5, tell=tell)


def _energy_headlines(result: Result) -> list[Headline]:
    assert isinstance(result, EnergyBenchmark)
    own = [t for t in result.timings if t.contender == "boltzkit" and not t.interpreted]
    return [
        Headline(
            f"{'energies with forces' if t.forces else 'energies'} of {t.molecule}, as fast as OpenMM Reference",
            result.ratio(t, "reference"),
        )
        for t in own
    ]


def _flow(quick: bool, opponents: bool, tell: Tell) -> FlowBenchmark:
    if quick:
        return benchmark_flow(("laptop",), 256, 3, opponents=False, threads=(1,), tell=tell)
    return benchmark_flow(rounds=3, opponents=opponents, threads=(1,), tell=tell)


def _flow_headlines(result: Result) -> list[Headline]:
    assert isinstance(result, FlowBenchmark)
    steps = [t for t in result.timings if t.task == "training step" and t.contender != BOUND]
    found = []
    for t in steps:
        whose, to = (t.contender, BOUND) if t.contender.startswith("boltzkit") else (t.contender, "boltzkit")
        ratio = result.ratio(t, to)
        if ratio is not None:
            found.append(Headline(f"training step of {whose}, {t.preset} flow, as long as {to}", ratio))
    return found


def _inference(quick: bool, opponents: bool, tell: Tell) -> InferenceBenchmark:
    return benchmark_inference(16 if quick else 128, 2 if quick else 3, (1,), tell=tell)


def _inference_headlines(result: Result) -> list[Headline]:
    assert isinstance(result, InferenceBenchmark)
    return [
        Headline(f"samples with weights, {t.name}", t.per_hour / 1e6, "million an hour")
        for t in result.timings
    ]


def _simulate(quick: bool, opponents: bool, tell: Tell) -> SimulationBenchmark:
    names = ("alanine-dipeptide-cartesian",)
    if quick:
        return benchmark_simulate(names, 64, 3, picoseconds=20.0, sweeps=200, tell=tell)
    return benchmark_simulate(names, 256, 5, picoseconds=80.0, tell=tell)


def _simulate_headlines(result: Result) -> list[Headline]:
    assert isinstance(result, SimulationBenchmark)
    return [
        Headline(
            f"independent samples of {c.molecule} an hour, {c.contender}, as many as {OPENMM}",
            result.ratio(c),
        )
        for c in result.costs
        if c.contender != OPENMM
    ]


def _reading(quick: bool, opponents: bool, tell: Tell) -> ReadingBenchmark:
    return benchmark_reading(100_000 if quick else 500_000, rounds=3, tell=tell)


def _reading_headlines(result: Result) -> list[Headline]:
    assert isinstance(result, ReadingBenchmark)
    (own,) = (t for t in result.timings if t.contender == WINDOWS)
    return [
        Headline("a batch read in windows, as long as from memory", result.ratio(own)),
        Headline("a batch read in windows", own.milliseconds, "ms"),
    ]


def _reach(quick: bool, opponents: bool, tell: Tell) -> ReachBenchmark:
    if quick:
        short = {name: config.with_overrides(["training.steps=200"]) for name, config in METHODS.items()}
        return benchmark_reach((0,), short, tell=tell)
    return benchmark_reach(tell=tell)


def _reach_headlines(result: Result) -> list[Headline]:
    assert isinstance(result, ReachBenchmark)
    bar = result.bars[0]
    return [
        Headline(
            f"seconds to a forward ESS of {100 * bar:.0f} % of the many-well, {name}",
            result.seconds(name, bar),
            "s",
        )
        for name in dict.fromkeys(one.method for one in result.trainings)
        if math.isfinite(result.seconds(name, bar))
    ]


def _growth(quick: bool, opponents: bool, tell: Tell) -> GrowthBenchmark:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if quick:
            few = SEQUENCES[:3]
            return benchmark_growth(
                few, 16, 1, samples=(1_000, 10_000), preset="tiny", folder=folder, tell=tell
            )
        return benchmark_growth(SEQUENCES[:4], samples=(10_000, 100_000), folder=folder, tell=tell)


def _growth_headlines(result: Result) -> list[Headline]:
    assert isinstance(result, GrowthBenchmark)
    slopes = {stage: result.slope("atoms", stage) for stage in result.stages("atoms") if " / " not in stage}
    return [
        Headline(f"exponent of the cost in the number of atoms, {stage}", slope, "")
        for stage, slope in slopes.items()
        if slope is not None
    ]


PARTS: dict[str, Part] = {
    "energy": Part("Energies", _energy, _energy_headlines),
    "flow": Part("Training and sampling", _flow, _flow_headlines),
    "inference": Part("Samples with weights", _inference, _inference_headlines),
    "simulate": Part("Simulations", _simulate, _simulate_headlines),
    "reading": Part("Reading data", _reading, _reading_headlines),
    "reach": Part("Time and evaluations to a given ESS", _reach, _reach_headlines, once=True),
    "growth": Part("How costs grow", _growth, _growth_headlines, once=True),
}
"""Benchmarks of the page by name."""


@dataclass(frozen=True)
class AllBenchmarks:
    """Repeats of all benchmarks.

    Attributes:
        quick: whether they were short ones.
        parts: what was run.
        results: by name, one result per repeat.
    """

    quick: bool
    parts: dict[str, Part]
    results: dict[str, list[Result]]

    def headlines(self) -> list[tuple[str, str]]:
        """Return name and number of every headline: the median over repeats, with the lowest and highest."""
        found: list[tuple[str, str]] = []
        for name, part in self.parts.items():
            repeats = [part.headlines(result) for result in self.results[name]]
            for same in zip(*repeats, strict=True):
                values = [one.value for one in same]
                text = f"{statistics.median(values):.3g} {same[0].unit}".strip()
                if len(values) > 1:
                    text += f" [{min(values):.3g}, {max(values):.3g}]"
                found.append((same[0].name, text))
        return found

    def to_markdown(self) -> str:
        """Return the page."""
        kind = _QUICK if self.quick else ""
        lines = [
            "# Benchmarks",
            "",
            f"{self._repeated()}, one thread. {kind}".rstrip(),
            "",
        ]
        lines.append(markdown_table(["", ""], self.headlines()))
        for name, part in self.parts.items():
            lines += [f"## {part.title}", "", self.results[name][-1].to_markdown()]
        return "\n".join(lines)

    def _repeated(self) -> str:
        n = max(map(len, self.results.values()))
        return "One run" if n == 1 else f"Medians of {n} repeats [lowest, highest]"

    def write(self, out: Path) -> None:
        """Write benchmark.md and benchmark.html, and the files of each benchmark's last repeat in a folder."""
        for name in self.parts:
            self.results[name][-1].write(out / name)
        write_bytes(out / "benchmark.md", self.to_markdown().encode())
        page = Page("Benchmarks")
        page.table(["", self._repeated()], [list(row) for row in self.headlines()])
        for name, part in self.parts.items():
            page.heading(part.title)
            for head, rows in _tables(self.results[name][-1].to_markdown()):
                page.table(head, rows)
        page.write(out / "benchmark.html")


def _tables(markdown: str) -> Iterator[tuple[list[str], list[list[str]]]]:
    """Yield head and rows of each table of a text."""
    for found in re.findall(r"(?:^\|.*\n?)+", markdown, re.MULTILINE):
        rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in found.splitlines()]
        yield rows[0], rows[2:]


def benchmark_all(
    quick: bool = False,
    opponents: bool = True,
    repeats: int = 3,
    parts: dict[str, Part] | None = None,
    folder: Path | None = None,
    tell: Tell = lambda text: None,
) -> AllBenchmarks:
    """Run all benchmarks in turn, several times over, so that a slow minute of the machine shows as spread.

    Args:
        quick: some minutes instead of half an hour.
        opponents: time the flows of other libraries too.
        repeats: how often.
        parts: what to run; everything by default.
        folder: where each benchmark is written as soon as it is there, so that a stop loses no more than one.
        tell: takes progress.
    """
    chosen = PARTS if parts is None else parts
    results: dict[str, list[Result]] = {name: [] for name in chosen}
    for repeat in range(repeats):
        for name, part in chosen.items():
            if part.once and repeat:
                continue
            tell(f"repeat {repeat + 1} of {repeats}: {name}")
            results[name].append(part.run(quick, opponents, tell))
            if folder is not None:
                results[name][-1].write(folder / name)
    return AllBenchmarks(quick, chosen, results)
