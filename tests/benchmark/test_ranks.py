"""Weak scaling is measured by real trainings under torchrun; how long anything took is not tested."""

import csv
import io

import pytest

from boltzkit.benchmark.ranks import RankBenchmark, RankTiming, benchmark_ranks
from boltzkit.errors import UserError

TINY = {"flow.pairs": "1", "flow.hidden": "[8]", "flow.bins": "4"}


def test_efficiency_is_that_of_one_rank_over_that_of_several():
    times = {1: [10.0, 30.0, 11.0], 2: [22.0, 12.5, 21.0]}
    found = RankBenchmark(
        tuple(RankTiming("a", n, value) for n, values in times.items() for value in values), batch=64
    )
    assert found.efficiency("a", 1) == 1.0
    assert found.efficiency("a", 2) == pytest.approx(11 / 21)
    assert "| a | 11.0 (1.00) | 21.0 (0.52) |" in found.to_markdown()
    assert "2 ranks, batch 128" in found.to_markdown()


def test_both_methods_train_under_torchrun(tmp_path):
    told = []
    found = benchmark_ranks((1,), batch=8, rounds=1, settings=TINY, tell=told.append)
    assert [(t.method, t.ranks) for t in found.timings] == [("forward KL + LDR-L1", 1), ("CMT + LDR-L1", 1)]
    assert all(t.milliseconds > 0 for t in found.timings)
    found.write(tmp_path)
    rows = list(csv.DictReader(io.StringIO((tmp_path / "table.csv").read_text())))
    assert [row["batch"] for row in rows] == ["8", "8"]
    assert (tmp_path / "ranks.png").read_bytes().startswith(b"\x89PNG")
    assert len(told) == 2


def test_a_training_that_fails_says_why():
    with pytest.raises(UserError, match=r"^Training on 1 ranks failed: .*flow\.hiden"):
        benchmark_ranks((1,), batch=8, rounds=1, settings={"flow.hiden": "[8]"})
