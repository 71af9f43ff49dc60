"""Worker processes of this machine: the same bits, a lost one tolerated, a hung one ended, a stop that is clean."""

import multiprocessing
import os
import signal
import sys

import pytest

from boltzkit.data import DatasetWriter
from boltzkit.errors import Interrupted, UserError
from boltzkit.workers import Item, WorkerOptions, local, open_workers, run_items, workers_if_asked
from boltzkit.workers.item import Order, perform


def test_labels_are_the_same_and_a_killed_worker_is_replaced(label, labels, tmp_path):
    killed, told = [], []

    def kill_once(writer: DatasetWriter) -> None:
        if not killed:
            killed.append(multiprocessing.active_children()[0].pid)
            os.kill(killed[0], signal.SIGKILL)

    with open_workers(WorkerOptions(workers=2)) as workers:
        found = label(tmp_path / "a", workers, kill_once, tell=told.append)
    assert found == labels
    # Idle at that moment it would not be missed; but more pieces wait than there are workers.
    assert any("lost its worker (exit code -9) and is tried again" in text for text in told)
    assert multiprocessing.active_children() == []


def test_a_stop_keeps_what_was_stored_and_the_same_command_goes_on(label, labels, tmp_path):
    def stop(writer: DatasetWriter) -> None:
        if len(writer.manifest.shards) == 2:
            os.kill(os.getpid(), signal.SIGTERM)

    with (
        open_workers(WorkerOptions(workers=1)) as workers,
        pytest.raises(Interrupted, match=f"saved in {tmp_path / 'a'}; the same"),
    ):
        label(tmp_path / "a", workers, stop)
    assert len([path for path in (tmp_path / "a" / "shards").iterdir() if "energy" in path.name]) in range(
        2, 10
    )
    assert multiprocessing.active_children() == []
    assert label(tmp_path / "a", None, lambda writer: None) == labels


def test_a_hung_item_is_ended_and_named(label, tmp_path):
    """Nobody loads a molecule in a hundredth of a second."""
    sentence = r"^The piece 'a\.npy, frames 0 to 199' was given up: .*: 1 \(more than 0\.01 s passed\)"
    options = WorkerOptions(workers=1, timeout=0.01, tries=1)
    with open_workers(options) as workers, pytest.raises(UserError, match=sentence):
        label(tmp_path / "a", workers, lambda writer: None)


def test_one_process_is_this_one():
    with workers_if_asked(WorkerOptions()) as workers:
        assert workers is None
    assert WorkerOptions(timeout=1.0).elsewhere  # a hung call can only be ended with its process


ITEM = Item("piece", "p", "boltzkit.data.piece:evaluate_piece", {"file": "missing.npy"})


@pytest.mark.parametrize(
    ("change", "outcome"),
    [
        ({"version": "0.0"}, r"A worker has boltzkit .* and not 0\.0: install the same version"),
        ({"folder": "/nowhere"}, "does not see the folder /nowhere: workers need the file system"),
        ({"item": {**vars(ITEM), "function": "os:system"}}, "functions of boltzkit alone, not 'os:system'"),
    ],
)
def test_a_worker_refuses_what_it_cannot_do_alike(change, outcome):
    answer = perform(Order(ITEM).plain() | change, print)
    with pytest.raises(UserError, match=outcome):
        raise UserError(answer["refused"])


def test_a_mistake_in_an_item_is_told_with_its_traceback():
    told = []
    with (
        open_workers(WorkerOptions(workers=1, timeout=600)) as workers,
        pytest.raises(UserError, match=r"^The piece 'p' failed; see above\.$"),
    ):
        run_items(workers, [ITEM], lambda item, result: None, tell=told.append)
    assert "KeyError: 'molecule'" in told[0]


def test_without_dask_it_is_asked_for(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)  # as if it were not installed
    with (
        pytest.raises(UserError, match=r"^--dask needs dask\.distributed: pip install 'boltzkit\[dask\]'\.$"),
        open_workers(WorkerOptions(dask="tcp://127.0.0.1:1")),
    ):
        pass


def test_a_worker_that_cannot_be_started_is_a_lost_one(monkeypatch):
    """No memory and no process number left is an OSError; it must not hang the command."""
    told = []

    def no_process() -> None:
        raise OSError(12, "Cannot allocate memory")

    monkeypatch.setattr(local, "_Worker", no_process)
    with (
        open_workers(WorkerOptions(workers=1, tries=2)) as workers,
        pytest.raises(
            UserError, match=r"'p' was given up: workers lost over it: 2 .it could not start: Cannot"
        ),
    ):
        run_items(workers, [ITEM], lambda item, result: None, tell=told.append)
    assert len(told) == 1
