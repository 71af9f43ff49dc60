"""DCD trajectories, as CHARMM, NAMD, OpenMM and LAMMPS write them: memory-mapped, and exact about their length.

A file is a sequence of Fortran records, each between two copies of its length: a header with 20 integers, titles, the
number of atoms, and then for every frame an optional unit cell and one record each for x, y and z in Å.
"""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from boltzkit.errors import UserError

__all__ = ["DcdFile"]

_FRAMES, _FIXED_ATOMS, _CELL, _FOURTH = 0, 8, 10, 11
"""Places of the header's integers: number of frames, of atoms that never move, flags for a cell and a fourth axis."""
_MOST_ATOMS = 10**8
"""Beyond which NumPy cannot describe a frame."""


class DcdFile:
    """Frames of a DCD file. What is cut off or unknown is refused when it is opened.

    Attributes:
        n_atoms: atoms of a frame.
        n_frames: frames in the file.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._bytes = (
            np.memmap(path, dtype=np.uint8, mode="r") if path.stat().st_size else np.empty(0, np.uint8)
        )
        self._order = self._byte_order()
        header, place = self._record(0)
        control = np.frombuffer(header[4:84], f"{self._order}i4")
        if control[_FIXED_ATOMS] or control[_FOURTH]:
            raise UserError(
                f"{path} has fixed atoms or a fourth dimension, which is not supported: write it without."
            )
        _, place = self._record(place)
        atoms, self._start = self._record(place)
        self.n_atoms = int(np.frombuffer(atoms, f"{self._order}i4")[0]) if len(atoms) == 4 else 0
        if not 1 <= self.n_atoms <= _MOST_ATOMS:
            raise UserError(f"{path} is damaged: its header does not say how many atoms a frame has.")
        self._frame = _frame_type(self.n_atoms, bool(control[_CELL]), self._order)
        self.n_frames = self._count(int(control[_FRAMES]))

    def read(self, start: int, stop: int) -> NDArray[np.float32]:
        """Return frames from start to before stop, ``(frames, atoms, 3)`` nm."""
        size = self._frame.itemsize
        content = self._bytes[self._start + start * size : self._start + stop * size]
        frames = np.frombuffer(content, self._frame)
        length = 4 * self.n_atoms
        if any((frames[f"{axis}{side}"] != length).any() for axis in "xyz" for side in ("_before", "_after")):
            raise UserError(f"{self._path} is damaged between frames {start} and {stop - 1}.")
        return np.stack([frames[axis] for axis in "xyz"], axis=-1).astype(np.float32) / np.float32(10)

    def _byte_order(self) -> str:
        if len(self._bytes) >= 92 and bytes(self._bytes[4:8]) == b"CORD":
            for order in "<>":
                if int(np.frombuffer(self._bytes[:4], f"{order}i4")[0]) == 84:
                    return order
        raise UserError(f"{self._path} is not a DCD file: it does not begin with the header of one.")

    def _record(self, place: int) -> tuple[NDArray[np.uint8], int]:
        """Return the content of the record at a place, and the place of the next one."""
        marker = f"{self._order}i4"
        length = (
            int(np.frombuffer(self._bytes[place : place + 4], marker)[0])
            if place + 4 <= len(self._bytes)
            else -1
        )
        end = place + 4 + length
        if (
            length < 0
            or end + 4 > len(self._bytes)
            or np.frombuffer(self._bytes[end : end + 4], marker)[0] != length
        ):
            raise UserError(f"{self._path} is damaged: its header is not complete.")
        return self._bytes[place + 4 : end], end + 4

    def _count(self, claimed: int) -> int:
        frames, rest = divmod(len(self._bytes) - self._start, self._frame.itemsize)
        if rest or frames < claimed:
            raise UserError(
                f"{self._path} is cut off: it holds {frames} complete frames"
                + (f" of {claimed}" if claimed > frames else f" and {rest} bytes more")
                + "; copy it again, or cut it to complete frames with the tool that wrote it."
            )
        return frames


def _frame_type(n_atoms: int, cell: bool, order: str) -> np.dtype[Any]:
    fields: list[tuple[str, str] | tuple[str, str, int]] = []
    if cell:
        fields += [("cell_before", f"{order}i4"), ("cell", f"{order}f8", 6), ("cell_after", f"{order}i4")]
    for axis in "xyz":
        marker = f"{order}i4"
        fields += [(f"{axis}_before", marker), (axis, f"{order}f4", n_atoms), (f"{axis}_after", marker)]
    return np.dtype(fields)
