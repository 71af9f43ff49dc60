"""Batches are read in three ways of one dataset; how long anything took is not tested."""

import csv

from boltzkit.benchmark import benchmark_reading
from boltzkit.benchmark.reading import MEMORY, ROWS, WINDOWS


def test_every_way_is_timed_and_written(tmp_path):
    result = benchmark_reading(samples=600, batch=64, rounds=1)
    assert [t.contender for t in result.timings] == [WINDOWS, MEMORY, ROWS]
    assert all(t.milliseconds > 0 for t in result.timings)
    assert 0.1 < result.megabytes < 1
    result.write(tmp_path)
    rows = list(csv.DictReader((tmp_path / "table.csv").read_text().splitlines()))
    assert {row["samples"] for row in rows} == {"600"}
    assert "(1.0×)" in (tmp_path / "table.md").read_text()
