"""Known answers without data: one budget for all methods, and a sentence that counts what it says."""

import pytest

from boltzkit.errors import UserError
from boltzkit.method.fit import check_config
from boltzkit.reproduce import run_experiment
from boltzkit.reproduce.experiment import Found
from boltzkit.reproduce.known_answers import SCALES, known_answers_experiment


@pytest.mark.parametrize("scale", SCALES)
def test_all_rows_of_a_block_have_one_budget_and_no_data(scale):
    rows = known_answers_experiment(scale).rows
    assert len({row.cell.key for row in rows}) == len(rows)
    assert len(rows) == sum(len(task.methods) for task in SCALES[scale].tasks.values())
    for row in rows:
        config = row.cell.config
        check_config(config)
        assert (config.annealing or config.fab).evaluations == SCALES[scale].evaluations
        assert config.data.path is None


def test_a_table_of_seconds_is_written_with_its_sentence(tmp_path):
    experiment = known_answers_experiment("smoke")
    run_experiment(experiment, tmp_path, 1, lambda text: None, rows=["0-cmt-ldr-l1", "*-fab"])
    assert {path.stem for path in (tmp_path / "cells").glob("*.json")} == {"0-cmt-ldr-l1", "0-fab"}
    table = (tmp_path / "table.md").read_text()
    assert "CMT + LDR-L1" in table
    assert "FAB" in table
    assert "Of 4 runs " in (tmp_path / "report.html").read_text()


def test_a_row_that_is_not_there_is_refused_before_anything_is_written(tmp_path):
    experiment = known_answers_experiment("smoke")
    with pytest.raises(UserError, match=r"has no row 'cmt'; its rows are 0-cmt, 0-cmt-ldr-l1"):
        run_experiment(experiment, tmp_path / "out", 1, lambda text: None, rows=["0-fab", "cmt"])
    assert not (tmp_path / "out").exists()


def test_the_sentence_knows_what_is_wrong_and_trusted():
    def run(deviation, verdict, missed, k=0.2):
        return {
            "log_z_deviation": deviation,
            "verdict": verdict,
            "missed": missed,
            "reverse": {"pareto_k": k},
        }

    runs = [run(1.0, "trust", 0.0), run(-2.5, "trust", 0.5), run(9.0, "do not trust", 0.5, k=0.9)]
    one = Found(planned=None, row=None, result={"runs": runs}, arrays=None)
    said = known_answers_experiment("smoke").summary([one])
    assert "Of 3 runs 2 are said to be trusted, and their log Z lies 2.5 standard errors" in said
    assert (
        "2 have k̂ < 0.7, at most 2.5. 2 runs miss more than 5 % of their target; 1 of these are not" in said
    )
