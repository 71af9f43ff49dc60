"""Rows and frames: matched by times or by counting, and never guessed."""

from pathlib import Path

import numpy as np
import pytest

from boltzkit.data.colvar import Colvar
from boltzkit.data.frame_rows import frame_rows, frame_times
from boltzkit.errors import UserError


def table(times):
    values = np.asarray(times, dtype=float)[:, None]
    return Colvar(Path("COLVAR"), ("time",), values)


def even(n, first=0.0, step=0.2):
    return table(first + step * np.arange(n))


@pytest.mark.parametrize(
    ("colvar", "frames", "expected"),
    [
        (even(7), 7, range(7)),  # one to one
        (even(8), 7, range(1, 8)),  # PLUMED writes time zero, the trajectory does not
        (even(71), 7, range(10, 71, 10)),  # the same with every tenth row
        (even(61), 7, range(0, 61, 10)),  # both write time zero and the end
        (even(70), 7, range(0, 70, 10)),  # both write time zero; the last rows come after the last frame
        (even(70, first=0.2), 7, range(9, 70, 10)),  # neither writes time zero
        (even(61, first=30.0), 7, range(0, 61, 10)),  # a continued run
        (even(5), 1, None),
    ],
)
def test_counting(colvar, frames, expected):
    if expected is None:
        with pytest.raises(UserError, match="not clear which belong together"):
            frame_rows(colvar, frames)
        return
    found = frame_rows(colvar, frames)
    assert found.index.tolist() == list(expected)
    assert "matched by counting" in found.sentence


@pytest.mark.parametrize(
    ("colvar", "frames", "sentence"),
    [
        (even(75), 7, "fits no whole number of rows per frame"),
        (even(6), 7, "has 6 rows for 7 frames, which fits no"),
        (even(70, first=30.0), 7, "every 10th row from row 0 on or every 10th row from row 9 on"),
        (even(7 * 6 * 2 + 1), 7, "every 12th row from row 12 on or every 14th row from row 0 on"),
        (table([0, 1, 2, 3, 7, 8]), 3, "rows are missing after time 3"),
    ],
)
def test_what_does_not_fit_or_fits_twice_is_refused(colvar, frames, sentence):
    with pytest.raises(UserError, match=sentence):
        frame_rows(colvar, frames)


def test_what_is_asked_for_is_done():
    found = frame_rows(even(75), 7, every=10, first=5)
    assert found.index.tolist() == list(range(5, 75, 10))
    assert frame_rows(even(70, first=30.0), 7, every=10, first=9).index[0] == 9
    assert frame_rows(even(70, first=30.0), 7, first=9).index[0] == 9
    for every, first in ((12, 5), (10, 25), (5, 0), (0, 0), (1, -1)):
        with pytest.raises(UserError, match=r"fit \d+ frames|is 1 or more"):
            frame_rows(even(75), 7, every=every, first=first)


def test_times_settle_what_counting_cannot():
    colvar = table([*np.arange(0, 10, 0.2), *np.arange(12, 20, 0.2)])
    times = np.array([2.0, 4.0, 6.0, 14.0, 16.0])
    found = frame_rows(colvar, 5, times.astype(np.float32).astype(float))
    np.testing.assert_allclose(colvar.time[found.index], times)
    assert "by the times in both files, rows 10 to" in found.sentence
    with pytest.raises(UserError, match="rows are missing"):
        frame_rows(colvar, 5, np.array([2.0, 4.0, 11.0, 14.0, 16.0]))  # 11 fell into the gap


def test_times_that_contradict_counting_are_refused():
    """A tool that wrote frame numbers as times: 0, 1, 2, ... are among the rows, but are not when frames were seen."""
    with pytest.raises(UserError, match="not clear which belong together"):
        frame_rows(even(71), 7, np.arange(7.0))
    agreeing = frame_rows(even(71), 7, 2.0 * np.arange(1, 8))
    assert agreeing.index.tolist() == list(range(10, 71, 10))
    # Times that are none of the rows' say nothing.
    assert "by counting" in frame_rows(even(71), 7, 0.1 + 2.0 * np.arange(1, 8)).sentence


def test_times_are_read_from_trajectories(tmp_path, frames):
    formats, h5py = pytest.importorskip("mdtraj.formats"), pytest.importorskip("h5py")
    x, times = frames(5), np.array([0.5, 1.0, 1.5, 2.0, 2.5], dtype=np.float32)
    with formats.XTCTrajectoryFile(str(tmp_path / "a.xtc"), "w") as file:
        file.write(x, time=times, step=np.arange(5), box=np.tile(np.eye(3, dtype=np.float32), (5, 1, 1)))
    with formats.TRRTrajectoryFile(str(tmp_path / "a.trr"), "w") as file:
        file.write(x, time=times, step=np.arange(5), box=np.tile(np.eye(3, dtype=np.float32), (5, 1, 1)))
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["coordinates"], file["time"] = x, times
    np.save(tmp_path / "a.npy", x)
    for name in ("a.xtc", "a.trr", "a.h5"):
        np.testing.assert_allclose(frame_times(tmp_path / name), times)
    assert frame_times(tmp_path / "a.npy") is None
