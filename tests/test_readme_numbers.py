"""Numbers of the README: those of the committed results, rounded."""

import csv
import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
pytestmark = pytest.mark.skipif(
    not (ROOT / "results").is_dir(), reason="source archives come without results"
)

METHODS = {
    "forward KL": "fwd KL",
    "forward KL, path gradients": "fwd KL (path gradients)",
    "forward KL + LDR-L2": "fwd KL + LDR-L2",
    "forward KL + LDR-L1": "fwd KL + LDR-L1",
}


def rows(experiment: str) -> dict[tuple[str, str], dict[str, str]]:
    text = (ROOT / "results" / experiment / "table.csv").read_text()
    return {(row["group"], row["method"]): row for row in csv.DictReader(text.splitlines())}


def shown(row: dict[str, str], mean: str, spread: str) -> str:
    return f"{float(row[mean]):.1f} ± {float(row[spread]):.1f}"


def both(row: dict[str, str]) -> str:
    """Return our ESS and the published one, as the README has them."""
    return f"{shown(row, 'ess_mean', 'ess_sd')} ({shown(row, 'ess_paper_mean', 'ess_paper_sd')})"


@pytest.mark.parametrize("name", METHODS)
def test_the_table_of_the_mixture_is_that_of_the_results(name):
    (line,) = re.findall(rf"^\| {re.escape(name)} \| (.*) \|$", README, re.MULTILINE)
    stored = rows("gmm")
    expected = [both(stored[size, METHODS[name]]) for size in ("500", "1000", "10000")]
    assert line.split(" | ") == expected


def ess(experiment: str, group: str, method: str) -> str:
    return shown(rows(experiment)[group, method], "ess_mean", "ess_sd")


def test_the_numbers_of_the_molecule_are_those_of_the_results():
    unbiased = [ess("aldp-unbiased", "100000", method) for method in ("fwd KL", "fwd KL + LDR-L2")]
    assert f"LDR takes the ESS from {unbiased[0]} to {unbiased[1]} %" in README
    assert f"{ess('aldp-variational', '1000000', 'CMT + LDR-L2')} % in" in README


def test_the_number_of_aspirin_is_that_of_its_run():
    summary = json.loads((ROOT / "results/run/aspirin/summary.json").read_text())
    assert f"ESS {100 * summary['ess_raw']:.1f} %" in README
