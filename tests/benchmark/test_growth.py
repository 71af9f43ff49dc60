"""Growth is measured and fitted right; how long anything took is not tested."""

import csv
import io

import pytest

from boltzkit.benchmark.growth import GrowthBenchmark, Measured, benchmark_growth
from boltzkit.benchmark.growth_stages import MEMORY


def test_slopes_are_those_of_power_laws():
    sizes = (10, 20, 40, 80)
    square = [Measured("atoms", "square", n, 3.0 * n**2) for n in sizes]
    bent = [Measured("atoms", "bent", n, float(max(n, 40))) for n in sizes]
    constant = [Measured("samples", "constant", n, 5.0) for n in sizes]
    found = GrowthBenchmark((*square, *bent, *constant), "tiny", 4)
    assert found.slope("atoms", "square") == pytest.approx(2)
    assert found.slope("samples", "constant") == pytest.approx(0)
    # What grows only at the end is told apart from what always does.
    assert found.slope("atoms", "bent", largest=2) == pytest.approx(1)
    assert found.slope("atoms", "bent") < 0.5
    assert GrowthBenchmark(tuple(square[:1]), "tiny", 4).slope("atoms", "square") is None
    assert found.stages("atoms") == ["square", "bent"]


def test_every_stage_is_measured_and_written(tmp_path):
    told = []
    found = benchmark_growth(
        ["ACE-NME"],
        batch=4,
        rounds=1,
        samples=(600, 10**15),
        preset="tiny",
        folder=tmp_path,
        tell=told.append,
    )
    assert found.stages("atoms") == [
        "energy",
        "energy + forces",
        "Cartesian → internal",
        "internal → Cartesian",
        "training step",
        "sample with weight",
        "training step, TarFlow",
        "sample with weight, TarFlow",
        "building the molecule / s",
        MEMORY,
    ]
    assert {m.size for m in found.measured if m.against == "atoms"} == {12}
    assert {m.size for m in found.measured if m.against == "samples"} == {600}
    assert all(m.value > 0 for m in found.measured if m.stage != MEMORY)
    (sentence,) = found.left_out
    assert "samples were left out: they take" in sentence
    assert sentence in told
    assert list(tmp_path.iterdir()) == []  # the datasets are gone
    found.write(tmp_path / "out")
    rows = list(csv.DictReader(io.StringIO((tmp_path / "out" / "table.csv").read_text())))
    assert len(rows) == len(found.measured)
    assert sentence in (tmp_path / "out" / "table.md").read_text()
    assert (tmp_path / "out" / "growth.png").read_bytes().startswith(b"\x89PNG")
