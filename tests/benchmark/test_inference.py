"""Samples per hour of every flow, at toy sizes."""

import csv
import io

from boltzkit.benchmark import benchmark_inference
from boltzkit.benchmark.inference import CONTENDERS, Contender
from boltzkit.energy import TargetConfig
from boltzkit.flow import SPLINE_PRESETS, TARFLOW_PRESETS, RealNVPConfig
from boltzkit.method import MoleculeConfig


def test_all_flows_are_timed_and_written(tmp_path):
    toys = {
        "a": Contender(TargetConfig(), RealNVPConfig(layers=2, hidden=(4,)), "plane"),
        "b": Contender(MoleculeConfig(molecule="ACE-NME"), SPLINE_PRESETS["tiny"], "internal", 1e8),
        "c": Contender(MoleculeConfig(molecule="ACE-NME"), TARFLOW_PRESETS["tiny"], "Cartesian"),
    }
    found = benchmark_inference(8, 1, (1,), toys)
    found.write(tmp_path)
    rows = list(csv.DictReader(io.StringIO((tmp_path / "table.csv").read_text())))
    assert [row["flow"] for row in rows] == ["a", "b", "c"]
    assert all(float(row["samples_per_hour"]) > 0 for row in rows)
    assert rows[1]["published_a100"] == "100000000.0"
    assert "samples / hour" in (tmp_path / "table.md").read_text()


def test_contenders_are_the_papers():
    published = {one.published for one in CONTENDERS.values()}
    assert published == {None, 2.8e8, 1.1e8, 2.8e7}
