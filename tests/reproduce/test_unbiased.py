"""Molecules from unbiased data: the plans are the paper's, and a study of seconds runs, stops, goes on and is kept."""

import json
import shutil
import signal
import subprocess
import sys
from dataclasses import replace

import pytest
import torch

from boltzkit.cli import main
from boltzkit.data import Dataset
from boltzkit.errors import UserError
from boltzkit.method import Model, RunConfig, evaluate, fit, load
from boltzkit.method.fit import check_config
from boltzkit.reproduce import run_experiment
from boltzkit.reproduce.cell import run_cell, stored_result
from boltzkit.reproduce.experiment import Found
from boltzkit.reproduce.experiment import finished as finished_rows
from boltzkit.reproduce.published import LD_VARIANTS, UNBIASED
from boltzkit.reproduce.report import gain, gain_without_data, write_report
from boltzkit.reproduce.study import plan
from boltzkit.reproduce.table import Row
from boltzkit.reproduce.unbiased import STUDIES

NAME = "alanine-dipeptide"


@pytest.fixture(scope="session")
def study():
    """The dipeptide's table with two of its rows, at the scale of seconds."""
    whole = STUDIES["aldp-unbiased"]
    smoke = whole.scales["smoke"]
    short = replace(smoke, sizes={400: smoke.sizes[400]})
    methods = {key: whole.methods[key] for key in ("forward-kl", "ldr-l1")}
    return replace(whole, methods=methods, scales={"smoke": short})


@pytest.fixture(scope="session")
def finished(data, study, tmp_path_factory):
    """The study, run once with two workers."""
    out = tmp_path_factory.mktemp("study") / "aldp"
    told = []
    run_experiment(plan(study, "smoke", data, "cpu"), out, 2, told.append)
    return out, told


@pytest.mark.parametrize("name", STUDIES)
def test_every_scale_plans_valid_runs(name, data):
    study = STUDIES[name]
    for scale_name, scale in study.scales.items():
        # No dataset of millions here: the plan alone is looked at.
        rows = _planned(study, scale_name)
        started = scale.start_steps > 0
        per_size = len(study.methods) + started
        assert len({row.cell.key for row in rows}) == len(rows) == len(scale.sizes) * per_size
        for row in rows[1:] if started else rows:
            assert row.cell.after == (rows[0].cell if started else None)
        for row in rows:
            config = row.cell.config
            check_config(config)
            assert RunConfig.parse(config.model_dump(mode="json")) == config
            assert config.data.samples == int(row.group)
            assert config.objective.warm_up == round(0.08 * config.training.steps)
            if row.cell.tuning is not None:
                assert not set(row.cell.tuning.seeds) & set(row.cell.seeds)
                assert config.training.learning_rate in row.cell.tuning.learning_rates


def _planned(study, scale_name):
    from boltzkit.reproduce import study as module

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "checked_dataset", lambda molecule, scale, data: data)
        return plan(study, scale_name, "data", "cpu").rows


def test_the_paper_scale_is_the_papers():
    rows = _planned(STUDIES["aldp-unbiased"], "paper")
    assert [row.group for row in rows[::3]] == ["1000000", "2000000", "5000000"]
    config = rows[0].cell.config
    training = config.training
    assert (training.steps, training.batch, training.weight_decay) == (250_000, 1024, 1e-5)
    assert (training.optimiser, training.schedule, training.clip) == ("adam", "cosine", None)
    assert config.objective.warm_up == 20_000
    assert config.evaluation.samples == config.evaluation.test_samples == 10_000_000
    assert (config.flow.pairs, config.flow.hidden, config.flow.bins) == (8, (256,) * 5, 8)
    assert all(row.paper["nll"][0] < -214 for row in rows)
    assert {row.cell.config.objective.dispersion for row in rows} == {"none", "l1", "l2"}


def test_the_papers_numbers_are_complete():
    for by_size in UNBIASED.values():
        for by_method in by_size.values():
            assert list(by_method) == ["forward-kl", "ldr-l2", "ldr-l1"]
            assert all(len(numbers) == 7 for numbers in by_method.values())
    assert UNBIASED["alanine-dipeptide"][1_000_000]["ldr-l1"]["ess"] == (97.81, 0.07)
    assert UNBIASED["alanine-hexapeptide"][5_000_000]["forward-kl"]["energy_w2"] == (36.6, 6.3)
    assert LD_VARIANTS["ldr-huber"]["ess"] == (16.88, 0.40)


def test_the_longest_cells_start_first(data, study):
    cells = plan(study, "smoke", data, "cpu").cells()
    assert [cell.steps() for cell in cells] == sorted((cell.steps() for cell in cells), reverse=True)
    # Two rates for 3 steps and both again for 6, and two seeds of 6; the other row has two weights instead.
    assert [cell.steps() for cell in cells] == [2 * 3 + 2 * 6 + 2 * 6] * 2


def test_a_study_leaves_table_figures_and_numbers(finished, data, study):
    out, told = finished
    assert told[0].startswith("About ")
    names = {path.name for path in out.iterdir()}
    assert {
        "table.md",
        "table.csv",
        "report.html",
        "training.png",
        "gradient_norm.png",
        "ramachandran.png",
    } <= names
    table = (out / "table.md").read_text()
    assert "| 400 | fwd KL |" in table
    assert "TICA" not in table.splitlines()[2]
    assert "Published values" in (out / "report.html").read_text()
    for planned in plan(study, "smoke", data, "cpu").rows:
        result = stored_result(planned.cell, out / "cells")
        assert [len(v) for v in result["metrics"]["validation_forward_ess"]] == [2] * 6
        assert len(result["metrics"]["gradient_norm"]["variance"]) == 2
        assert all(seconds > 0 for seconds in result["training_seconds"])
        assert "physical time" in result["runs"][0]["skipped"]["tica"]
        # What is published names no path of this machine.
        assert str(data) not in json.dumps(result)


def test_the_same_data_elsewhere_is_the_same_question(finished, data, study, tmp_path):
    moved = tmp_path / "moved"
    moved.symlink_to(data)
    experiment = plan(study, "smoke", moved, "cpu")
    assert stored_result(experiment.rows[0].cell, finished[0] / "cells") is not None
    # The control: other data are another question.
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "manifest.json").write_text("{}")
    config = experiment.rows[0].cell.config.with_overrides([f"data.path={tmp_path / 'other'}"])
    other = replace(experiment.rows[0].cell, config=config)
    assert stored_result(other, finished[0] / "cells") is None


def test_a_table_may_be_filled_on_several_draws_of_the_data(finished, data, study, tmp_path):
    """A simulation gives other samples on another machine: rows count all the same, and the page says so."""
    out = tmp_path / "again"
    shutil.copytree(finished[0], out)
    experiment = plan(study, "smoke", data, "cpu")
    path = out / "cells" / f"{experiment.rows[0].cell.key}.json"
    stored = json.loads(path.read_text())
    stored["question"]["config"]["data"]["path"] = "dataset of another machine"
    path.write_text(json.dumps(stored))
    found = finished_rows(experiment, out)
    assert len(found) == len(experiment.rows)
    write_report(experiment, found, out)
    assert "2 draws of the data" in (out / "table.md").read_text()
    # The controls: one draw needs no word, and a row with other settings is none of this table.
    assert "draws of the data" not in (finished[0] / "table.md").read_text()
    stored["question"]["config"]["training"]["steps"] += 1
    path.write_text(json.dumps(stored))
    assert len(finished_rows(experiment, out)) == len(experiment.rows) - 1


def test_the_sentence_compares_a_method_with_itself():
    def found(group, label, ess):
        return Found(planned=None, row=Row(group, label, {"ess": ess}, {}), result={}, arrays=None)

    rows = [found("1000", "CMT", [0.2, 0.4]), found("1000", "FAB", [0.9]), found("1000", "CMT + LDR-L2", [0.5, 0.7]),
            found("1000", "CMT + LDR-L1", [0.1]), found("9000", "CMT", [0.8])]  # fmt: skip
    said = gain_without_data(rows)
    assert (
        "From 1000 evaluations, CMT + LDR-L2 reaches an effective sample size of 60.0 %, CMT alone 30.0 %."
        in said
    )
    assert "FAB" not in said
    assert "9000" not in said
    assert "LDR" not in gain(rows[1:2])


def test_a_kept_model_is_the_first_seeds_flow(finished, data, study, capsys):
    out, _ = finished
    for planned in plan(study, "smoke", data, "cpu").rows:
        kept = load(out / "models" / planned.cell.key)
        whole = load(out / "cells" / planned.cell.key / "final" / "0")
        assert all(torch.equal(v, kept.flow.state_dict()[k]) for k, v in whole.flow.state_dict().items())
        assert str(data.parent) not in (out / "models" / planned.cell.key / "config.json").read_text()
    # On the same test data it has the same numbers, from Python and from the command line.
    stored = stored_result(planned.cell, out / "cells")["runs"][0]
    again = evaluate(kept, Dataset.open(data).split("test")).to_json()
    assert (again["nll"], again["reverse"]["ess"]) == (stored["nll"], stored["reverse"]["ess"])
    folder = out / "models" / planned.cell.key
    assert main(["evaluate", str(folder), "--data", str(data), "--out", str(out / "judged")]) == 0
    assert json.loads((out / "judged" / "metrics.json").read_text())["nll"] == stored["nll"]
    capsys.readouterr()


def test_a_kept_model_cannot_be_trained_on(finished):
    folder = finished[0] / "models" / "400-ldr-l1"
    config = load(folder).config.with_overrides([])
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    with pytest.raises(UserError, match="make data with boltzkit simulate"):
        fit(config, folder)
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before


def test_rows_that_go_on_from_a_common_start(data, tmp_path):
    whole = STUDIES["hexa-lambda"]
    methods = {key: whole.methods[key] for key in ("forward-kl", "ldr-l1-0.5", "ldr-l1-2")}
    experiment = plan(replace(whole, molecule=NAME, methods=methods), "smoke", data, "cpu")
    told = []
    run_experiment(experiment, tmp_path, 1, told.append)
    start, first, *_ = [row.cell for row in experiment.rows]
    began, before = (load(cell.flows(tmp_path / "cells")[1]) for cell in (first, start))
    assert began.config.start == str(start.flows(tmp_path / "cells")[1])
    weights = Model.untrained(began.config).flow.state_dict()
    assert all(torch.equal(v, before.flow.state_dict()[k]) for k, v in weights.items())
    assert not all(torch.equal(v, began.flow.state_dict()[k]) for k, v in weights.items())  # and trains on
    page = (tmp_path / "table.md").read_text()
    assert "common start" in page
    assert "nothing is tuned" in page
    assert (tmp_path / "data_weight.png").is_file()


def test_too_small_a_dataset_is_refused(data, study):
    big = replace(study.scales["smoke"], sizes={481: study.scales["smoke"].sizes[400]})
    with pytest.raises(UserError, match=r"has 480 train samples, and 481 are needed: add some"):
        plan(replace(study, scales={"smoke": big}), "smoke", data, "cpu")


DRIVER = """
import sys
from pathlib import Path
from boltzkit.reproduce.cell import run_cell
from boltzkit.reproduce.report import gain, gain_without_data, write_report
from boltzkit.reproduce.study import plan
from boltzkit.reproduce.table import Row
from boltzkit.reproduce.unbiased import STUDIES
import torch

torch.set_num_threads(1)
cells = plan(STUDIES["aldp-unbiased"], "smoke", Path(sys.argv[1]), "cpu").cells()
cell = next(cell for cell in cells if cell.key == "400-ldr-l1")
run_cell(cell, Path(sys.argv[2]), lambda text: print(text, flush=True))
"""


@pytest.mark.parametrize("where", ["rung 2 of 2", "training 2 seeds"])
def test_a_killed_cell_goes_on_to_the_same_numbers(where, finished, data, study, tmp_path):
    """SIGKILL after a checkpoint in the middle of a tuning or of a training, then the same cell again."""
    command = [sys.executable, "-c", DRIVER, str(data), str(tmp_path)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    next(line for line in process.stdout if where in line)
    next(line for line in process.stdout if "step 4 of 6" in line)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert list(tmp_path.glob("*.json")) == []
    told = []
    cell = next(row.cell for row in plan(study, "smoke", data, "cpu").rows if row.cell.key == "400-ldr-l1")
    resumed = run_cell(cell, tmp_path, told.append)
    # It went on from a checkpoint, and did not begin anew.
    first = next(text for text in told if text.startswith("step"))
    assert first.startswith(("step 4 of 6", "step 5 of 6", "step 6 of 6"))
    whole = stored_result(cell, finished[0] / "cells")
    assert resumed["tuned"] == whole["tuned"]
    for one, other in zip(resumed["runs"], whole["runs"], strict=True):
        assert (one["nll"], one["reverse"]["log_z"]) == (other["nll"], other["reverse"]["log_z"])
    assert resumed["metrics"] == whole["metrics"]
