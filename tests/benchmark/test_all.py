"""All benchmarks on one page: medians over repeats with their spread, every table, and the headlines of each."""

import itertools
from dataclasses import replace
from pathlib import Path

import pytest

from boltzkit.benchmark import (
    EnergyBenchmark,
    FlowBenchmark,
    InferenceBenchmark,
    ReadingBenchmark,
    benchmark_all,
)
from boltzkit.benchmark.all import PARTS, Headline, Part
from boltzkit.benchmark.energy import Timing
from boltzkit.benchmark.flow_table import BOUND, FlowTiming
from boltzkit.benchmark.growth import GrowthBenchmark, Measured
from boltzkit.benchmark.inference import InferenceTiming
from boltzkit.benchmark.reading import MEMORY, WINDOWS, ReadingTiming
from boltzkit.benchmark.simulate import OPENMM, SAMPLER, Mixing, SimulationBenchmark, SimulationCost


class Counting:
    """A result that is its number."""

    def __init__(self, value: float) -> None:
        self.value = value

    def to_markdown(self) -> str:
        return f"| what | number |\n|---|---|\n| it | **{self.value:g}** |\n"

    def write(self, out: Path) -> None:
        out.mkdir(parents=True, exist_ok=True)
        (out / "table.md").write_text(self.to_markdown())


def test_the_page_has_medians_spread_and_tables(tmp_path):
    numbers = itertools.chain([4.0, 1.0, 2.0])
    part = Part("Counting", lambda *_: Counting(next(numbers)), lambda r: [Headline("how far", r.value)])
    told = []
    found = benchmark_all(quick=True, parts={"count": part}, tell=told.append)
    assert found.headlines() == [("how far", "2 × [1, 4]")]
    assert len(told) == 3
    found.write(tmp_path)
    page = (tmp_path / "benchmark.md").read_text()
    assert "| how far | 2 × [1, 4] |" in page
    assert "not for quoting" in page
    assert "not for quoting" not in replace(found, quick=False).to_markdown()
    assert "| it | **2** |" in page  # the last repeat
    html = (tmp_path / "benchmark.html").read_text()
    assert "2 × [1, 4]" in html
    assert "<b>2</b>" in html
    assert (tmp_path / "count" / "table.md").is_file()


def test_a_part_may_run_once():
    calls = []
    part = Part(
        "Once", lambda *_: calls.append(1) or Counting(3.0), lambda r: [Headline("n", r.value, "")], once=True
    )
    found = benchmark_all(parts={"once": part})
    assert (len(calls), found.headlines()) == (1, [("n", "3")])
    assert "One run, one thread." in benchmark_all(parts={"once": part}, repeats=1).to_markdown()


def test_what_is_finished_is_written_at_once(tmp_path):
    def stopped(*_):
        raise KeyboardInterrupt

    parts = {
        "first": Part("First", lambda *_: Counting(3.0), lambda r: []),
        "second": Part("Second", stopped, lambda r: []),
    }
    with pytest.raises(KeyboardInterrupt):
        benchmark_all(parts=parts, folder=tmp_path)
    assert "| it | **3** |" in (tmp_path / "first" / "table.md").read_text()
    assert not (tmp_path / "second").exists()


def test_headlines_of_each_benchmark():
    costs = [Measured("atoms", "energy", n, float(n**2)) for n in (10, 20, 40)]
    (growth,) = PARTS["growth"].headlines(GrowthBenchmark(tuple(costs), "tiny", 4))
    assert growth.value == pytest.approx(2.0)
    energies = (Timing("m", 3, True, "boltzkit", 2.0), Timing("m", 3, True, "reference", 40.0))
    (energy,) = PARTS["energy"].headlines(EnergyBenchmark(energies))
    assert energy.value == pytest.approx(20)
    steps = tuple(
        FlowTiming("paper", "training step", 1, name, 10, ms)
        for name, ms in {"boltzkit": 12.0, BOUND: 10.0, "zuko": 36.0}.items()
    )
    flow = PARTS["flow"].headlines(FlowBenchmark(8, steps))
    assert [one.value for one in flow] == pytest.approx([1.2, 3.0])
    (inference,) = PARTS["inference"].headlines(
        InferenceBenchmark(8, (InferenceTiming("f", 1, 10, 2e6, None),))
    )
    assert (inference.value, inference.unit) == (2.0, "million an hour")
    reading = PARTS["reading"].headlines(
        ReadingBenchmark(300, 32, 1.0, (ReadingTiming(WINDOWS, 3.0), ReadingTiming(MEMORY, 2.0)))
    )
    assert [(one.value, one.unit) for one in reading] == [(1.5, "×"), (3.0, "ms")]
    costs = (
        SimulationCost("m", SAMPLER, 8, 10.0, Mixing(50.0, 1.0)),
        SimulationCost("m", OPENMM, 1, 100.0, Mixing(500.0, 1.0)),
    )
    (simulation,) = PARTS["simulate"].headlines(SimulationBenchmark(costs))
    assert simulation.value == pytest.approx(100)
