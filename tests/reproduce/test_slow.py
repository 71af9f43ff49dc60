"""Slow coordinates of a table: fitted on the dynamics that are given, and part of the question."""

from pathlib import Path

import pytest

from boltzkit.errors import UserError
from boltzkit.molecule import find_molecule
from boltzkit.reproduce.cell import run_cell
from boltzkit.reproduce.experiment import Experiment
from boltzkit.reproduce.gmm import gmm_experiment
from boltzkit.reproduce.question import same_question
from boltzkit.reproduce.study import plan
from boltzkit.reproduce.unbiased import STUDIES
from boltzkit.simulate import MDSimulation, simulate_md


@pytest.fixture(scope="module")
def dynamics(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sixty-four trajectories of 6 ps, a frame each 0.2 ps."""
    out = tmp_path_factory.mktemp("dynamics") / "md"
    config = MDSimulation(samples=64 * 30, trajectories=64, every=200, equilibration=0.2)
    simulate_md(find_molecule("alanine-dipeptide"), config, out, lambda text: None)
    return out


@pytest.fixture
def experiment(data: Path) -> Experiment:
    """The table at the scale of seconds."""
    return plan(STUDIES["aldp-no-data"], "smoke", data, "cpu")


def test_dynamics_give_the_columns_that_need_them(experiment, dynamics, tmp_path):
    cell = experiment.with_dynamics(dynamics).cells()[0]
    run = run_cell(cell, tmp_path, lambda text: None)["runs"][0]
    assert run["tica"]["raw"]["value"] > 0
    assert "tica" not in run["skipped"]


def test_dynamics_are_part_of_the_question_wherever_they_lie(experiment, dynamics, tmp_path):
    (tmp_path / "moved").symlink_to(dynamics)
    asked = experiment.with_dynamics(dynamics).cells()[0].question()
    assert same_question(experiment.with_dynamics(tmp_path / "moved").cells()[0].question(), asked)
    # The control: without dynamics, columns are missing.
    assert not same_question(experiment.cells()[0].question(), asked)


def test_targets_without_torsions_have_no_slow_coordinates(dynamics):
    with pytest.raises(UserError, match="--tica is for molecules"):
        gmm_experiment("demo").with_dynamics(dynamics)


def test_a_folder_without_dynamics_is_refused_before_anything_runs(experiment, tmp_path):
    with pytest.raises(UserError, match="is not a dataset"):
        experiment.with_dynamics(tmp_path)
