"""The benchmark times every contender and writes what it found; how long anything took is not tested."""

import csv
import time

import pytest

from boltzkit.benchmark import EnergyBenchmark, benchmark_energy, interleaved
from boltzkit.benchmark.energy import Timing


def test_contenders_take_turns_and_the_first_call_is_not_timed():
    calls = []
    times = interleaved({"a": lambda: calls.append("a"), "b": lambda: calls.append("b")}, rounds=3)
    assert calls == ["a", "b"] * 4
    assert set(times) == {"a", "b"}


def test_a_sleeping_contender_is_slower():
    times = interleaved({"asleep": lambda: time.sleep(0.02), "awake": lambda: None}, rounds=3)
    assert times["asleep"] >= 0.02  # sleep never returns early; the other one's time is not looked at


def test_ratios_compare_the_same_work():
    timings = (
        Timing("m", 3, False, "torch", 2.0),
        Timing("m", 3, False, "reference", 40.0),
        Timing("m", 3, True, "torch", 5.0),
        Timing("m", 3, True, "reference", 50.0),
    )
    result = EnergyBenchmark(timings)
    assert [result.ratio(t, "reference") for t in timings] == [20.0, 1.0, 10.0, 1.0]


@pytest.mark.parametrize("interpreted", [False, True])
def test_a_ratio_to_an_interpreter_is_marked(interpreted):
    timings = tuple(Timing("m", 3, False, name, 1.0, interpreted) for name in ("torch", "reference"))
    assert ("| m* |" in EnergyBenchmark(timings).to_markdown()) is interpreted


@pytest.fixture(scope="module")
def result():
    return benchmark_energy(["ACE-NME"], batch=32, rounds=1, compiled=False)


def test_every_contender_is_timed_with_and_without_forces(result):
    assert len(result.timings) == 12
    assert all(timing.microseconds > 0 for timing in result.timings)
    assert {timing.forces for timing in result.timings} == {False, True}


def test_files(result, tmp_path):
    result.write(tmp_path)
    rows = list(csv.DictReader((tmp_path / "table.csv").read_text().splitlines()))
    assert len(rows) == 12
    assert all(float(r["times_as_fast_as_reference"]) == 1.0 for r in rows if r["contender"] == "reference")
    assert "reference" in (tmp_path / "table.md").read_text()
    assert (tmp_path / "cost.png").read_bytes().startswith(b"\x89PNG")
