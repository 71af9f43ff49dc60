"""Time and evaluations to a given ESS: when bars are met, by real trainings, and what is never reached."""

import math

import pytest

from boltzkit.benchmark.all import PARTS
from boltzkit.benchmark.reach import METHODS, Reach, ReachBenchmark, benchmark_reach


@pytest.fixture(scope="module")
def short():
    changes = ["training.steps=40", "data.validation_samples=500"]
    methods = {
        name: METHODS[name].with_overrides(changes)
        for name in ("forward KL on data", "forward KL + LDR-L1 on data")
    }
    methods["CMT"] = METHODS["CMT"].with_overrides(
        [*changes, "annealing.evaluations=4000", "annealing.stages=4"]
    )
    return benchmark_reach((0, 1), methods, bars=(0.0, 0.999))


def test_bars_are_met_once_and_for_what_was_evaluated(short):
    low, high = short.bars
    spent = {
        name: [one.evaluations[low] for one in short.trainings if one.method == name] for name in METHODS
    }
    assert spent["forward KL on data"] == [0, 0]
    assert spent["forward KL + LDR-L1 on data"] == [5000, 5000]
    assert all(0 < value <= 4000 for value in spent["CMT"])
    assert all(one.seconds[low] > 0 for one in short.trainings)
    assert all(math.isinf(one.seconds[high]) for one in short.trainings)


def test_the_table_tells_what_is_not_reached(short, tmp_path):
    short.write(tmp_path)
    text = (tmp_path / "table.md").read_text()
    assert text.count("not reached") == 3 + 1  # three methods, and the note
    lines = (tmp_path / "table.csv").read_text().splitlines()
    assert lines[0] == "method,seed,forward_ess,seconds,evaluations"
    assert len(lines) == 1 + 3 * 2 * 2


def test_medians_and_quartiles():
    times = (1.0, 2.0, 3.0, math.inf)
    found = ReachBenchmark(
        "to", (0.5,), tuple(Reach("a", n, {0.5: t}, {0.5: 10 * t}) for n, t in enumerate(times))
    )
    assert found.seconds("a", 0.5) == 2.5
    assert "| a | 2.5 [1.8, inf] s, 25 [18, inf] evaluations |" in found.to_markdown()
    headlines = PARTS["reach"].headlines(found)
    assert [one.value for one in headlines] == [2.5]
    never = ReachBenchmark("to", (0.5,), (Reach("a", 0, {0.5: math.inf}, {0.5: math.inf}),))
    assert "| a | not reached |" in never.to_markdown()
    assert PARTS["reach"].headlines(never) == []
