"""Tables without data: budgets kept, the published settings as published, and a smoke run."""

from pathlib import Path

import pytest

from boltzkit.method import RunConfig
from boltzkit.method.fit import check_config
from boltzkit.reproduce import EXPERIMENTS, variational
from boltzkit.reproduce.cell import run_cell
from boltzkit.reproduce.experiment import Found
from boltzkit.reproduce.figures import by_size
from boltzkit.reproduce.published import VARIATIONAL
from boltzkit.reproduce.study import COLUMNS
from boltzkit.reproduce.table import Row
from boltzkit.reproduce.training_figures import path_to_target
from boltzkit.reproduce.variational import plan_variational
from boltzkit.reproduce.variational_scales import VARIATIONAL_STUDIES


def planned(study, scale, monkeypatch):
    monkeypatch.setattr(variational, "checked_samples", lambda molecule, data, most, test: data)
    return plan_variational(study, scale, Path("data"), "cpu", Path("out")).rows


@pytest.mark.parametrize("name", VARIATIONAL_STUDIES)
def test_every_scale_plans_valid_runs(name, monkeypatch):
    study = VARIATIONAL_STUDIES[name]
    assert name in EXPERIMENTS
    for scale in study.scales:
        rows = planned(study, scale, monkeypatch)
        assert len({row.cell.key for row in rows}) == len(rows)
        for row in rows:
            config = row.cell.config
            check_config(config)
            assert RunConfig.parse(config.model_dump(mode="json")) == config
            assert (config.annealing or config.fab).evaluations == int(row.group)
            regularised = "LDR" in row.label
            assert (config.objective.dispersion != "none") == regularised


def test_the_paper_scale_is_the_papers(monkeypatch):
    rows = planned(VARIATIONAL_STUDIES["aldp-variational"], "paper", monkeypatch)
    by_key = {row.cell.key: row for row in rows}
    for budget, steps in ((1_000_000, 40_000), (10_000_000, 400_000), (100_000_000, 400_000)):
        config, plain = (by_key[f"{budget}-{key}"].cell.config for key in ("cmt-ldr-l1", "cmt"))
        assert plain.model_copy(update={"objective": config.objective}) == config
        assert (config.training.steps, config.annealing.stages, config.annealing.trust) == (steps, 200, 0.3)
        assert (config.training.batch, config.training.clip, config.training.warm_up) == (1000, 100.0, 1000)
        assert (config.annealing.reuse, config.annealing.pretraining, config.annealing.path) == (
            1,
            0,
            "tempered",
        )
    assert by_key["10000000-cmt"].paper["ess"] == (85.20, 0.47)
    assert VARIATIONAL["alanine-hexapeptide"][400_000_000]["cmt-ldr-l1"]["nll"] == (-505.219, 0.019)


def test_published_settings_differ_from_ours_in_the_path_alone(monkeypatch):
    rows = planned(VARIATIONAL_STUDIES["aldp-variational"], "laptop", monkeypatch)
    by_key = {row.cell.key: row.cell.config for row in rows}
    ours, theirs = by_key["100000-cmt-ldr-l1"], by_key["100000-cmt-published-ldr-l1"]
    assert ours.annealing != theirs.annealing
    assert ours.model_copy(update={"annealing": None}) == theirs.model_copy(update={"annealing": None})
    path = theirs.annealing
    assert (path.reuse, path.effective, path.path, path.hottest, path.averaged) == (
        1,
        None,
        "tempered",
        4,
        False,
    )


def test_a_row_runs_within_its_budget(data, tmp_path):
    rows = plan_variational(VARIATIONAL_STUDIES["aldp-variational"], "smoke", data, "cpu", tmp_path).rows
    result = run_cell(rows[1].cell, tmp_path / "cells", lambda text: None)
    assert [run["seed"] for run in result["runs"]] == [0, 1]
    assert (tmp_path / "models" / rows[1].cell.key / "config.json").is_file()
    # Its path is kept to be drawn.
    path = result["metrics"]
    assert path["evaluations"][-1] == [3_000, 3_000]
    assert [len(path[name]) for name in ("exponent", "temperature", "ess")] == [len(path["step"])] * 3
    one = Found(rows[1], Row("3000", "CMT", {}, {}), result, tmp_path)
    figure = path_to_target([one]).figure
    assert [len(ax.lines) for ax in figure.axes] == [1, 1]
    assert figure.axes[0].lines[0].get_ydata()[-1] <= 1
    assert path_to_target([Found(rows[1], one.row, {"metrics": {}}, tmp_path)]) is None


def test_the_figure_has_the_published_budgets_too():
    def row(group, values, paper):
        return Row(group, "CMT", values, paper)

    found = [
        Found(planned=None, row=row(str(budget), {"ess": [0.5, 0.7]}, {}), result={}, arrays=None)
        for budget in (1_000, 3_000)
    ]
    published = (row("9000", {}, {"ess": (85.2, 0.5)}), Row("9000", "FAB", {}, {"ess": (94.9, 0.1)}))
    picture = by_size(COLUMNS, ("ess",), "the number of energy evaluations", published)(found)
    (ax,) = picture.figure.axes
    diamonds = [line.get_ydata().tolist() for line in ax.lines if line.get_marker() == "D"]
    assert diamonds == [[85.2], []]  # and not those of methods that have no line
    assert "published" in picture.caption
    assert "published" not in by_size(COLUMNS, ("ess",))(found).caption
