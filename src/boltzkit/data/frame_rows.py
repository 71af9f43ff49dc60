"""Which rows of a table along time belong to the frames of a trajectory, and in words why."""

import importlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from boltzkit.data.colvar import Colvar
from boltzkit.data.trajectory_files import open_trajectory
from boltzkit.errors import UserError

__all__ = ["FrameRows", "frame_rows", "frame_times"]

_CLOSE = 0.2
"""Share of the time between two rows by which a frame's time may differ from its row's: XTC keeps times as float32."""
_EVEN = 0.05
"""Share by which single steps between rows may differ from the typical one."""
_CHUNK = 10_000


@dataclass(frozen=True, eq=False)
class FrameRows:
    """One row for each frame.

    Attributes:
        index: row of each frame, ``(frames,)``.
        sentence: what was assumed.
    """

    index: NDArray[np.int64]
    sentence: str


def frame_rows(
    colvar: Colvar,
    n_frames: int,
    times: NDArray[np.float64] | None = None,
    *,
    every: int | None = None,
    first: int | None = None,
) -> FrameRows:
    """Find the row of each frame, or refuse where more than one way is possible.

    Rows are often more frequent than frames. With ``every`` and ``first`` the answer is theirs. Otherwise frames are
    matched by the times that the trajectory holds, and by counting: every n-th row is a frame's where that uses up all
    rows, the first row at time zero being extra or not. Where both are possible they must agree.

    Args:
        colvar: the table.
        n_frames: frames of the trajectory.
        times: of the frames in ps, where the file has them.
        every: rows from one frame to the next.
        first: row of the first frame, from 0.
    """
    where = f"{colvar.path} has {len(colvar):,} rows for {n_frames:,} frames"
    if every is not None and first is not None:
        return _explicit(n_frames, len(colvar), every, first, where)
    counted = _by_count(colvar, n_frames, every, first)
    timed = None if every is not None or first is not None else _by_time(colvar.time, times)
    choices = {index.tobytes(): index for index in (*counted, *([] if timed is None else [timed]))}
    if not choices:
        raise UserError(
            f"{where}, which fits no whole number of rows per frame{_uneven(colvar)}: give the frames' rows with "
            "--colvar-every N and --colvar-first K, or cut the file."
        )
    if len(choices) > 1:
        ways = " or ".join(sorted(_words(index) for index in choices.values()))
        raise UserError(
            f"{where}, and it is not clear which belong together ({ways}): say so with --colvar-every N and "
            "--colvar-first K."
        )
    (index,) = choices.values()
    basis = "by the times in both files" if timed is not None else "by counting"
    return FrameRows(index, f"{where}: matched {basis}, {_words(index)}{_span(colvar, index)}")


def frame_times(path: Path) -> NDArray[np.float64] | None:
    """Return the times of a trajectory's frames in ps, None where the format holds none or they do not increase."""
    ending = path.suffix.lower()
    if ending not in {".xtc", ".trr", ".h5", ".hdf5"}:
        return None
    with open_trajectory(path) as file:  # explains what is wrong with it
        n_frames = file.n_frames
    times = _hdf5_times(path) if ending in {".h5", ".hdf5"} else _gromacs_times(path, n_frames)
    if times is None or times.shape != (n_frames,) or not np.isfinite(times).all():
        return None
    return times if (np.diff(times) > 0).all() else None


def _gromacs_times(path: Path, n_frames: int) -> NDArray[np.float64]:
    formats: Any = importlib.import_module("mdtraj.formats")
    kind = formats.XTCTrajectoryFile if path.suffix.lower() == ".xtc" else formats.TRRTrajectoryFile
    with kind(str(path)) as file:
        starts = range(0, n_frames, _CHUNK)
        parts = [file.read(n_frames=min(_CHUNK, n_frames - s), atom_indices=np.array([0]))[1] for s in starts]
    return np.concatenate(parts).astype(np.float64)


def _hdf5_times(path: Path) -> NDArray[np.float64] | None:
    h5py: Any = importlib.import_module("h5py")
    with h5py.File(path, "r") as file:
        return np.asarray(file["time"], dtype=np.float64).ravel() if "time" in file else None


def _explicit(n_frames: int, n_rows: int, every: int, first: int, where: str) -> FrameRows:
    if every < 1 or first < 0:
        raise UserError("--colvar-every is 1 or more, and --colvar-first 0 or more.")
    index = first + every * np.arange(n_frames, dtype=np.int64)
    if index[-1] >= n_rows or n_rows - 1 - index[-1] >= every:
        raise UserError(
            f"{where}, but every {every} from {first} on fit {max(0, -(-(n_rows - first) // every)):,} frames."
        )
    return FrameRows(index, f"{where}: as asked for, {_words(index)}")


def _by_count(colvar: Colvar, n_frames: int, every: int | None, first: int | None) -> list[NDArray[np.int64]]:
    """Return all ways in which evenly spaced rows belong to the frames and none is left over."""
    time, n_rows = colvar.time, len(colvar)
    if time is not None and _uneven(colvar):
        return []
    frames = np.arange(n_frames, dtype=np.int64)
    step = float(np.median(np.diff(time))) if time is not None and n_rows > 1 else 0.0
    # Without times, or with one row alone, zero is unknown.
    at_zero = None if time is None or not step else abs(time[0]) < _CLOSE * step
    at_step = None if time is None or not step else abs(time[0] - step) < _CLOSE * step
    ways = []
    if n_frames == n_rows:
        ways.append((0, 1))
    elif n_rows % n_frames == 0:
        stride = n_rows // n_frames
        ways += [(0, stride)] if at_zero is not False and not at_step else []
        ways += [(stride - 1, stride)] if at_step is not False and not at_zero else []
        ways = ways or [(0, stride), (stride - 1, stride)]  # time counts from elsewhere: both are possible
    if (n_rows - 1) % n_frames == 0 and n_rows > n_frames and at_zero is not False:
        ways.append(((n_rows - 1) // n_frames, (n_rows - 1) // n_frames))
    if n_frames > 1 and n_rows > n_frames and (n_rows - 1) % (n_frames - 1) == 0:
        ways.append((0, (n_rows - 1) // (n_frames - 1)))
    fitting = [way for way in ways if every in (None, way[1]) and first in (None, way[0])]
    return [start + stride * frames for start, stride in fitting]


def _by_time(
    rows: NDArray[np.float64] | None, frames: NDArray[np.float64] | None
) -> NDArray[np.int64] | None:
    """Return the row at the time of each frame, None when some frame has none."""
    if rows is None or frames is None or len(rows) < 2:
        return None
    after = np.searchsorted(rows, frames).clip(1, len(rows) - 1)
    index = np.where(frames - rows[after - 1] < rows[after] - frames, after - 1, after)
    close = np.abs(rows[index] - frames) < _CLOSE * float(np.median(np.diff(rows)))
    return index.astype(np.int64) if close.all() and (np.diff(index) > 0).all() else None


def _uneven(colvar: Colvar) -> str:
    """Return in words where rows are not evenly spaced in time, nothing where they are."""
    time = colvar.time
    if time is None or len(time) < 3:
        return ""
    steps = np.diff(time)
    odd = np.abs(steps / np.median(steps) - 1) > _EVEN
    return f", and rows are missing after time {time[odd.argmax()]:g}" if odd.any() else ""


def _words(index: NDArray[np.int64]) -> str:
    steps = np.unique(np.diff(index))
    if len(steps) > 1:
        return f"rows {index[0]} to {index[-1]} at uneven steps"
    step = int(steps[0]) if len(steps) else 1
    which = "every row" if step == 1 else f"every {step}th row"
    return f"{which} from row {index[0]} on"


def _span(colvar: Colvar, index: NDArray[np.int64]) -> str:
    time = colvar.time
    return "" if time is None else f" (times {time[index[0]]:g} to {time[index[-1]]:g})"
