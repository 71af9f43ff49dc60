"""A reproduction of seconds: the real machinery on tiny flows, run once."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

import boltzkit.reproduce.gmm as gmm
from boltzkit.method import RunConfig, TuneConfig, find_recipe
from boltzkit.molecule import find_molecule
from boltzkit.reproduce import run_experiment
from boltzkit.reproduce.cell import Cell
from boltzkit.reproduce.experiment import Experiment
from boltzkit.simulate import BatchedSimulation, TemperingConfig, simulate_batched

TINY = (
    "flow.layers=2",
    "flow.hidden=[8,8]",
    "data.validation_samples=100",
    "training.validate_every=3",
    "training.checkpoint_every=100",
    "evaluation.samples=1000",
    "evaluation.test_samples=500",
)
SCALE = gmm.Scale(
    {40: TuneConfig(data_weights=(0.3,), rungs=(0.5,))}, ("forward-kl", "ldr-l1"), seeds=(0, 1), steps=6
)


def tiny_recipe() -> RunConfig:
    return find_recipe("gmm").with_overrides(TINY)


@dataclass(frozen=True)
class Reproduction:
    """A finished reproduction, and how to ask for it again."""

    out: Path
    report: Path
    told: list[str]
    again: Callable[[], list[str]]


@contextmanager
def tiny_scale_known() -> Iterator[None]:
    """Make the scale `tiny` known, with the recipe's settings shrunk; cells carry their settings to workers."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gmm, "gmm", tiny_recipe)
        patch.setitem(gmm.SCALES, "tiny", SCALE)
        yield


@pytest.fixture
def tiny_experiment() -> Experiment:
    """The table at the tiny scale."""
    with tiny_scale_known():
        return gmm.gmm_experiment("tiny")


@pytest.fixture
def tiny_cells(tiny_experiment: Experiment) -> list[Cell]:
    """The cells of the tiny scale, forward KL first."""
    return tiny_experiment.cells()


@pytest.fixture(scope="session")
def reproduction(tmp_path_factory: pytest.TempPathFactory) -> Reproduction:
    """Run the tiny scale with two worker processes."""
    out = tmp_path_factory.mktemp("reproduction") / "gmm"

    def run() -> list[str]:
        told: list[str] = []
        with tiny_scale_known():
            run_experiment(gmm.gmm_experiment("tiny"), out, 2, told.append)
        return told

    told = run()
    return Reproduction(out, out / "report.html", told, run)


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dataset of 480 training, 160 validation and 640 test samples."""
    out = tmp_path_factory.mktemp("data") / "set"
    tempering = TemperingConfig(walkers=64)
    config = BatchedSimulation(
        samples=640, equilibration=20, segment=10, validation=0.25, tempering=tempering
    )
    simulate_batched(find_molecule("alanine-dipeptide"), config, out, lambda text: None)
    other = TemperingConfig(walkers=64, seed=1)
    test = config.model_copy(update={"validation": 0.0, "split": "test", "tempering": other})
    simulate_batched(find_molecule("alanine-dipeptide"), test, out, lambda text: None)
    return out
