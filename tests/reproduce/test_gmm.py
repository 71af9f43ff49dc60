"""The Gaussian-mixture table: the plan is the paper's, the report is complete and stands alone."""

import csv
import html
import re
import shutil

import pytest

from boltzkit.method import RunConfig
from boltzkit.method.unbiased import check_config
from boltzkit.reproduce import EXPERIMENTS, SCALES
from boltzkit.reproduce.cell import stored_result
from boltzkit.reproduce.gmm import METHODS, cells
from boltzkit.reproduce.gmm_report import COLUMNS, write_report
from boltzkit.reproduce.table import Row


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
    for row, line in zip([rows[0], *rows[2:]], shown, strict=True):
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


def test_several_sizes_make_a_curve(reproduction, tiny_cells, tmp_path):
    shutil.copytree(reproduction.out / "cells", tmp_path / "cells")
    values = {column.key: [0.9, 0.95] for column in COLUMNS}
    rows = [Row(size, label, values, {}) for size in ("40", "80") for label in ("fwd KL", "fwd KL + LDR-L1")]
    keys = [cell.key for cell in tiny_cells]
    report = write_report(tmp_path, "tiny", rows, [*keys, "80-forward-kl", "80-ldr-l1"])
    assert (tmp_path / "ess.png").read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
    assert report.read_text().count('src="data:image/png;base64,') == 2


@pytest.mark.parametrize("name", SCALES)
def test_every_scale_plans_valid_runs(name):
    planned = cells(SCALES[name])
    assert len({cell.key for _, _, cell in planned}) == len(planned)
    for size, key, cell in planned:
        assert RunConfig.parse(cell.config.model_dump(mode="json")) == cell.config
        check_config(cell.config)
        assert cell.config.data.samples == size
        assert cell.config.training.batch == size // 10
        assert (cell.tuning is None) or cell.tuning.learning_rates == METHODS[key].learning_rates
        assert cell.tuning is None or not set(cell.tuning.seeds) & set(cell.seeds)


def test_the_full_scale_is_the_papers_table():
    planned = cells(SCALES["paper"])
    assert [(size, key) for size, key, _ in planned] == [
        (size, key) for size in (500, 1000, 10_000) for key in METHODS
    ]
    assert all(cell.seeds == (10, 11, 12, 13) and cell.tuning is not None for _, _, cell in planned)
    assert all(set(method.paper) == {500, 1000, 10_000} for method in METHODS.values())


def test_the_experiment_has_its_name():
    assert set(EXPERIMENTS) == {"gmm"}


def test_no_seed_serves_both_the_choice_and_the_result():
    for _, _, cell in cells(SCALES["paper"]):
        assert cell.tuning is not None
        assert len(cell.tuning.seeds) >= 2
        assert not set(cell.seeds) & set(cell.tuning.seeds)
