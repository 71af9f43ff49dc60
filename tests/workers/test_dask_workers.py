"""Workers of a real dask scheduler: the same bits as here, a lost worker tolerated, a stop that saves."""

import json
import os
import signal

import pytest

from boltzkit.data import DatasetWriter
from boltzkit.errors import Interrupted, UserError
from boltzkit.method import RunConfig, TuneConfig, find_recipe, tune
from boltzkit.reproduce.cell import Cell, run_cell
from boltzkit.reproduce.schedule import run_cells
from boltzkit.workers import WorkerOptions, open_workers
from boltzkit.workers.dask_workers import DaskWorkers

distributed = pytest.importorskip(
    "distributed", reason="dask.distributed is not installed: pip install 'boltzkit[dask]'"
)


@pytest.fixture(scope="module")
def cluster():
    """A scheduler and two worker processes, which gives an item up with its second worker."""
    import dask

    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 1}),
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, silence_logs=50
        ) as running,
    ):
        yield running


@pytest.fixture
def options(cluster):
    return WorkerOptions(dask=cluster.scheduler_address)


def tiny(*assignments: str) -> RunConfig:
    words = [
        "flow.layers=2",
        "flow.hidden=[8,8]",
        "data.samples=60",
        "data.validation_samples=100",
        "training.steps=10",
        "training.batch=20",
        "training.validate_every=5",
        "evaluation.samples=1000",
        "evaluation.test_samples=500",
    ]
    return find_recipe("gmm").with_overrides([*words, *assignments])


def test_a_tuning_is_the_same(options, tmp_path):
    grid = TuneConfig(learning_rates=(1e-6, 1e-2, 1e30), rungs=(0.5, 1.0))
    config, told = tiny("training.max_failed_steps=3"), []
    here = tune(config, grid, tmp_path / "here")
    with open_workers(options) as workers:
        there = tune(config, grid, tmp_path / "there", tell=told.append, workers=workers)
    assert there == here
    files = [(tmp_path / place / "trials.json").read_bytes() for place in ("here", "there")]
    assert files[0] == files[1]
    assert {path.name for path in (tmp_path / "there").iterdir()} == {".lock", "trials.json"}
    # The control: another seed has other trials.
    other = grid.model_copy(update={"seeds": (7,)})
    assert tune(config, other, tmp_path / "other").trials != here.trials


def without_time(result):
    """Return a cell's result without what two runs never share."""
    return {k: v for k, v in result.items() if k not in ("seconds", "training_seconds", "provenance")}


def test_a_cell_is_the_same(options, tmp_path):
    cell = Cell("a", "a", tiny(), (0, 1), TuneConfig(learning_rates=(1e-3, 1e-2)))
    told = []
    (there,) = run_cells([cell], tmp_path / "there", options, told.append)
    here = run_cell(cell, tmp_path / "here", lambda text: None)
    assert without_time(there) == json.loads(json.dumps(without_time(here)))
    assert "[a] done" in told


def test_a_stop_saves_and_the_same_command_goes_on(options, tmp_path):
    config = tiny("training.steps=3000", "training.checkpoint_every=3000", "training.validate_every=20")
    cell = Cell("a", "a", config, (0,), None)

    def stop(text: str) -> None:
        if "validation NLL" in text:
            os.kill(os.getpid(), signal.SIGTERM)

    with pytest.raises(Interrupted, match="Stopped and saved in"):
        run_cells([cell], tmp_path, options, stop)
    (saved,) = (tmp_path / "a" / "final" / "checkpoints").iterdir()
    assert saved.name < "step-00003000"


def test_labels_are_the_same_and_a_killed_worker_is_replaced(cluster, options, label, labels, tmp_path):
    with distributed.Client(cluster.scheduler_address, set_as_default=False) as client:
        before = set(client.run(os.getpid).values())
    killed = []

    def kill_once(writer: DatasetWriter) -> None:
        if not killed:
            killed.append(min(before))
            os.kill(killed[0], signal.SIGKILL)
            assert len(writer.manifest.shards) == 1  # nine are missing

    told = []
    with open_workers(options, told.append) as workers:
        found = label(tmp_path / "a", workers, kill_once)
    assert found == labels
    assert killed
    assert told == [f"dask scheduler at {cluster.scheduler_address}, worker threads: 2."]


def test_an_item_that_costs_too_many_workers_is_named(cluster, label, tmp_path):
    """New workers, which must load the molecule first: nobody does that in a hundredth of a second."""
    with distributed.Client(cluster.scheduler_address, set_as_default=False) as client:
        client.restart()
    sentence = r"^The piece 'a\.npy, frames .*' was given up: workers lost over it: 2"
    options = WorkerOptions(dask=cluster.scheduler_address, timeout=0.01)
    with open_workers(options) as workers, pytest.raises(UserError, match=sentence):
        label(tmp_path / "a", workers, lambda writer: None)


def test_what_is_no_scheduler_is_refused():
    with pytest.raises(
        UserError, match=r"address of a scheduler, such as .* and there is no file 'nowhere\.json'"
    ):
        DaskWorkers("nowhere.json")
