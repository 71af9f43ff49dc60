"""Only one writer at a time; the next one waits its turn."""

import fcntl
import shutil
import threading

import pytest

from boltzkit.data.lock import sole_writer
from boltzkit.errors import UserError


def test_a_second_writer_waits_and_then_gives_up(tmp_path):
    folder = tmp_path / "new"
    with sole_writer(folder), pytest.raises(UserError, match="is being written by another process"):
        sole_writer(folder, patience=0.0).__enter__()
    with sole_writer(folder, patience=0.0):  # free again
        pass


def test_a_second_writer_goes_on_when_the_first_has_ended(tmp_path):
    first = sole_writer(tmp_path)
    first.__enter__()
    timer = threading.Timer(0.2, lambda: first.__exit__(None, None, None))
    timer.start()
    with sole_writer(tmp_path, patience=60):
        assert timer.finished.is_set()
    timer.join()


@pytest.mark.parametrize("removed", ["file", "folder"])
def test_a_lock_on_what_was_removed_meanwhile_is_taken_anew(removed, monkeypatch, tmp_path):
    """Its last holder clears up and ends just between our opening of the file and our locking of it."""
    folder, lock_of_file, calls = tmp_path / "spool", fcntl.flock, []

    def flock(handle, operation):
        calls.append(handle)
        if len(calls) == 1:
            (folder / ".lock").unlink() if removed == "file" else shutil.rmtree(folder)
        lock_of_file(handle, operation)

    monkeypatch.setattr(fcntl, "flock", flock)
    with sole_writer(folder, patience=0.0), pytest.raises(UserError, match="is being written by another"):
        sole_writer(folder, patience=0.0).__enter__()
    assert len(calls) == 3
