"""The table of biased data: its rows are the paper's, all share one proposal, and nothing names a path."""

import json
from pathlib import Path

import pytest

from boltzkit.method import RunConfig, load
from boltzkit.method.fit import check_config
from boltzkit.reproduce import EXPERIMENTS, biased
from boltzkit.reproduce.biased import SCALES, biased_experiment
from boltzkit.reproduce.cell import run_cell, stored_result
from boltzkit.reproduce.published import BIASED


@pytest.fixture(scope="module")
def prepared(data, tmp_path_factory):
    """The scale of seconds with its biased data and proposal."""
    out = tmp_path_factory.mktemp("biased") / "table"
    experiment = biased_experiment("smoke", data, "cpu", out)
    told = []
    experiment.prepare(told.append)
    return experiment, out, told


def planned(scale, monkeypatch):
    monkeypatch.setattr(biased, "checked_dataset", lambda molecule, scale, data: data)
    return biased_experiment(scale, Path("data"), "cpu", Path("out")).rows


@pytest.mark.parametrize("scale", SCALES)
def test_every_scale_plans_valid_runs(scale, monkeypatch):
    rows = planned(scale, monkeypatch)
    assert len({row.cell.key for row in rows}) == len(rows)
    for row in rows:
        config = row.cell.config
        check_config(config)
        assert RunConfig.parse(config.model_dump(mode="json")) == config
        assert not set(row.cell.tuning.seeds) & set(row.cell.seeds)
        if "IS" in row.group:
            assert ("LDR proposal" in row.group) == (config.importance.dispersion == "l1")
            assert config.importance.samples == int(row.group.split()[0].replace(",", ""))
            assert config.data.validation_path == "data"
        else:
            assert (config.importance, config.data.path) == (None, "data")


def test_the_paper_scale_is_the_papers(monkeypatch):
    rows = planned("paper", monkeypatch)
    assert [row.group for row in rows[:15:5]] == ["100,000 IS", "1,000,000 IS", "10,000,000 IS"]
    config = rows[4].cell.config
    assert (config.training.steps, config.training.batch, config.objective.warm_up) == (250_000, 1024, 50_000)
    assert (config.importance.resampled, config.reference.share) == (10_000_000, 0.5)
    assert rows[4].paper["ess"] == (82.30, 0.13)
    assert rows[0].cell.config.reference is None
    assert {row.cell.config.importance.proposal for row in rows[:15]} == {"out/models/proposal"}
    assert all(len(numbers) == 7 for by_key in BIASED.values() for numbers in by_key.values())
    assert "aldp-biased" in EXPERIMENTS


def test_a_cell_learns_from_the_shared_proposal_and_is_known_again(prepared, data):
    experiment, out, told = prepared
    assert any("proposal: step" in line for line in told)
    cell = next(row.cell for row in experiment.rows if row.cell.key == "400-ldr-l1-both")
    result = run_cell(cell, out / "cells", lambda text: None)
    assert [run["seed"] for run in result["runs"]] == [0, 1]
    text = json.dumps(result)
    assert str(out) not in text
    assert str(data) not in text
    assert "flow " in text
    assert stored_result(cell, out / "cells") is not None
    kept = load(out / "models" / "400-ldr-l1-both")
    assert str(out) not in kept.config.model_dump_json()
    again = []
    experiment.prepare(again.append)
    assert not any("proposal" in line for line in again)
