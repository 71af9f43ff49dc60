"""Cells: each answers its own question, on workers of their own, once."""

import json
import multiprocessing
import shutil
import signal
import subprocess
import sys

import numpy as np
import pytest

from boltzkit.errors import UserError
from boltzkit.reproduce.cell import Cell, run_cell, stored_result
from boltzkit.reproduce.schedule import run_cells


def changed(cell, *assignments, **fields):
    values = {name: getattr(cell, name) for name in ("key", "label", "seeds", "tuning")} | fields
    return Cell(config=cell.config.with_overrides(assignments), **values)


def test_results_answer_the_question(reproduction, tiny_cells):
    for cell in tiny_cells:
        result = stored_result(cell, reproduction.out / "cells")
        assert result["question"] == cell.question()
        assert result["label"] == cell.label
        assert [run["seed"] for run in result["runs"]] == [0, 1]
        assert result["runs"][0]["nll"] != result["runs"][1]["nll"]
        assert all(run["step"] == 6 for run in result["runs"])
        assert result["metrics"]["step"] == [3, 6]
        assert [len(values) for values in result["metrics"]["validation_nll"]] == [2, 2]
        assert len(result["tuned"]["trials"]) == 3
        best = min(result["tuned"]["trials"], key=lambda trial: trial[-1])
        assert [result["tuned"]["learning_rate"], result["tuned"]["data_weight"]] == best[1:3]


@pytest.mark.parametrize(
    ("assignments", "fields"),
    [(["training.steps=7"], {}), (["data.samples=41"], {}), ([], {"seeds": (0, 2)}), ([], {"tuning": None})],
)
def test_a_result_does_not_answer_another_question(assignments, fields, reproduction, tiny_cells):
    assert stored_result(changed(tiny_cells[0], *assignments, **fields), reproduction.out / "cells") is None


def test_the_density_of_the_first_seed_is_stored(reproduction, tiny_cells):
    with np.load(reproduction.out / "cells" / f"{tiny_cells[0].key}.npz", allow_pickle=False) as stored:
        axis, log_prob, log_target = stored["axis"], stored["log_prob"], stored["log_target"]
    assert log_prob.shape == log_target.shape == (121, 121)
    area = (axis[1] - axis[0]) ** 2
    # Both are normalised, and nearly all of their mass lies on the grid.
    assert np.exp(log_target.astype(float)).sum() * area == pytest.approx(1, abs=0.01)
    assert np.exp(log_prob.astype(float)).sum() * area == pytest.approx(1, abs=0.03)


def test_workers_say_whose_words_they_pass_on(reproduction, tiny_cells):
    for cell in tiny_cells:
        words = [text for text in reproduction.told if text.startswith(f"[{cell.label}] ")]
        assert words[-1].endswith("done")
        assert any("validation NLL" in text for text in words)


def test_a_worker_gives_the_numbers_of_this_process(reproduction, tiny_cells, tmp_path):
    """The same cell, run here, has the same result but for the time it took."""
    here = run_cell(tiny_cells[1], tmp_path, lambda text: None)
    there = stored_result(tiny_cells[1], reproduction.out / "cells")
    assert here["runs"] == there["runs"]
    assert here["tuned"] == there["tuned"]
    # The control: another number of steps has another result.
    other = run_cell(
        changed(tiny_cells[1], "training.steps=8", tuning=None), tmp_path / "b", lambda text: None
    )
    assert other["runs"] != here["runs"]


def test_changed_settings_are_run_again_and_never_over_another_run(tiny_cells, tmp_path):
    first = changed(tiny_cells[0], tuning=None)
    second = changed(first, "training.steps=8")
    run_cell(first, tmp_path, lambda text: None)
    before = (tmp_path / f"{first.key}.json").read_bytes()
    with pytest.raises(UserError, match="holds a run with other settings: choose another folder"):
        run_cell(second, tmp_path, lambda text: None)
    assert (tmp_path / f"{first.key}.json").read_bytes() == before
    # Where the old run was moved away, the old result is not mistaken for the new.
    shutil.rmtree(tmp_path / first.key)
    result = run_cell(second, tmp_path, lambda text: None)
    assert result["runs"][0]["step"] == 8
    assert stored_result(second, tmp_path) == json.loads(json.dumps(result))
    assert stored_result(first, tmp_path) is None


def test_a_failing_cell_is_named_and_explained(tiny_cells, tmp_path):
    told = []
    bad = changed(tiny_cells[0], "objective.data=none", tuning=None)
    with pytest.raises(UserError, match=r"^The cell '40 fwd KL' failed \(exit code 2\); see above\.$"):
        run_cells([bad], tmp_path, 1, told.append)
    assert any("[40 fwd KL] failed: There is nothing to minimise" in text for text in told)


def test_a_failure_stops_the_other_workers(tiny_cells, tmp_path):
    """Without that they would train on for hours behind an answer that is already given."""
    words = ["training.steps=1000000", "training.validate_every=20"]
    long = changed(tiny_cells[1], *words, tuning=None)
    bad = changed(tiny_cells[0], "objective.data=none", tuning=None)
    with pytest.raises(UserError, match=r"^The cell '40 fwd KL' failed"):
        run_cells([long, bad], tmp_path, 2, lambda text: None)
    assert multiprocessing.active_children() == []


DRIVER = """
import json, sys
from pathlib import Path
from boltzkit.errors import Interrupted
from boltzkit.method import RunConfig
from boltzkit.reproduce.cell import Cell
from boltzkit.reproduce.schedule import run_cells

if __name__ == "__main__":
    config = RunConfig.parse(json.loads(sys.argv[1]))
    planned = [Cell(key, key, config, (0, 1), None) for key in ("a", "b")]
    try:
        run_cells(planned, Path(sys.argv[2]), 1, lambda text: print(text, flush=True))
    except Interrupted as error:
        print(error, flush=True)
        sys.exit(130)
"""


def test_a_signal_stops_workers_which_save_and_go_on(tiny_cells, tmp_path):
    (tmp_path / "driver.py").write_text(DRIVER)
    config = tiny_cells[0].config.with_overrides(["training.steps=1000", "training.validate_every=20"])
    command = [sys.executable, tmp_path / "driver.py", config.model_dump_json(), tmp_path / "cells"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    next(line for line in process.stdout if "validation NLL" in line)
    process.send_signal(signal.SIGTERM)
    rest, _ = process.communicate(timeout=120)
    assert process.returncode == 130
    assert rest.splitlines()[-1].startswith(f"Stopped and saved in {tmp_path / 'cells'}; the same command")
    saved = [path.name for path in (tmp_path / "cells" / "a" / "final" / "checkpoints").iterdir()]
    assert saved
    assert "step-00001000" not in saved
    # The second cell was not begun, and neither is finished.
    assert [path.name for path in (tmp_path / "cells").iterdir()] == ["a"]
    steps = []
    result = run_cell(Cell("a", "a", config, (0, 1), None), tmp_path / "cells", steps.append)
    assert result["runs"][0]["step"] == 1000
    assert result["metrics"]["step"] == list(range(20, 1001, 20))
    # It went on, and did not begin anew.
    assert not any(text.startswith("step 20 of") for text in steps)
