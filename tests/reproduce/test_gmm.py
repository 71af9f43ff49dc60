"""The Gaussian-mixture table: the plan is the paper's, the report is complete and stands alone."""

import csv
import html
import re
from dataclasses import replace

import pytest

from boltzkit.method import RunConfig
from boltzkit.method.fit import check_config
from boltzkit.reproduce import EXPERIMENTS
from boltzkit.reproduce.cell import stored_result
from boltzkit.reproduce.experiment import finished
from boltzkit.reproduce.gmm import METHODS, SCALES, gmm_experiment
from boltzkit.reproduce.report import write_report


def files(folder):
    return {path: path.stat().st_mtime_ns for path in sorted(folder.rglob("*")) if path.is_file()}


def test_all_files_are_there(reproduction):
    names = {path.relative_to(reproduction.out).as_posix() for path in files(reproduction.out)}
    assert {"report.html", "table.md", "table.csv", "density.png"} <= names
    for key in ("40-forward-kl", "40-ldr-l1"):
        assert {f"cells/{key}.json", f"cells/{key}.npz"} <= names
    assert (reproduction.out / "density.png").read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
    # One data size makes no curve.
    assert "ess.png" not in names


def test_the_report_stands_alone(reproduction):
    content = reproduction.report.read_text()
    assert re.search(r"https?:|<link|<script|url\(", content) is None
    sources = re.findall(r'src="([^"]{0,30})', content)
    assert len(sources) == 1
    assert all(source.startswith("data:image/png;base64,") for source in sources)
    assert "From 40 samples, fwd KL + LDR-L1 reaches" in content


def test_table_and_report_have_the_rows(reproduction):
    text = (reproduction.out / "table.md").read_text()
    assert text.startswith("# Gaussian mixture, scale tiny\n")
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines() if line[:1] == "|"]
    assert rows[0][:3] == ["samples", "method", "NLL ↓"]
    assert [row[:2] for row in rows[2:]] == [["40", "fwd KL"], ["", "fwd KL + LDR-L1"]]
    assert len({len(row) for row in rows}) == 1
    shown = re.findall(r"<tr[^>]*>(.*?)</tr>", reproduction.report.read_text())
    # A second table tells what the tuning chose.
    assert len(shown) == 2 * (len(rows) - 1)
    for row, line in zip([rows[0], *rows[2:]], shown[: len(rows) - 1], strict=True):
        found = re.findall(r"<t[hd]>(.*?)</t[hd]>", html.unescape(line))
        assert [cell.replace("<b>", "**").replace("</b>", "**") for cell in found] == row


def test_the_csv_holds_the_means_of_the_results(reproduction, tiny_cells):
    with open(reproduction.out / "table.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    for row, cell in zip(rows, tiny_cells, strict=True):
        runs = stored_result(cell, reproduction.out / "cells")["runs"]
        assert float(row["nll_mean"]) == pytest.approx(sum(r["nll"]["value"] for r in runs) / 2, rel=1e-5)
        expected = 50 * sum(r["reverse"]["ess_clipped"] for r in runs)
        assert float(row["ess_mean"]) == pytest.approx(expected, rel=1e-5)
        # The paper has no value for 40 samples.
        assert row["nll_paper_mean"] == ""


def test_a_second_call_does_no_work(reproduction):
    before = files(reproduction.out / "cells")
    assert reproduction.again() == []
    assert files(reproduction.out / "cells") == before


def test_several_sizes_make_a_curve(reproduction, tiny_experiment, tmp_path):
    found = finished(tiny_experiment, reproduction.out)
    larger = [replace(one, row=replace(one.row, group="80")) for one in found]
    report = write_report(tiny_experiment, [*found, *larger], tmp_path)
    assert (tmp_path / "ess.png").read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
    assert report.read_text().count('src="data:image/png;base64,') == 2


@pytest.mark.parametrize("name", SCALES)
def test_every_scale_plans_valid_runs(name):
    planned = gmm_experiment(name).rows
    assert len({row.cell.key for row in planned}) == len(planned)
    for row in planned:
        config, size = row.cell.config, int(row.group)
        assert RunConfig.parse(config.model_dump(mode="json")) == config
        check_config(config)
        assert config.data.samples == size
        assert config.training.batch == size // 10
        method = METHODS[row.cell.key.partition("-")[2]].at(size)
        assert row.label == method.label
        assert row.cell.tuning is None or row.cell.tuning.learning_rates == method.learning_rates
        assert row.cell.tuning is None or not set(row.cell.tuning.seeds) & set(row.cell.seeds)


def test_the_full_scale_is_the_papers_table():
    planned = gmm_experiment("paper").rows
    labels = [method.label for method in METHODS.values()]
    assert [(row.group, row.label) for row in planned] == [
        (size, label) for size in ("500", "1000", "10000") for label in labels
    ]
    assert all(row.cell.seeds == (10, 11, 12, 13) and row.cell.tuning is not None for row in planned)
    assert all(set(row.paper) == {"nll", "ess"} for row in planned)


def test_the_experiment_has_its_name():
    assert EXPERIMENTS["gmm"].scales == tuple(SCALES)


def test_no_seed_serves_both_the_choice_and_the_result():
    for cell in gmm_experiment("paper").cells():
        assert cell.tuning is not None
        assert len(cell.tuning.seeds) >= 2
        assert not set(cell.seeds) & set(cell.tuning.seeds)
