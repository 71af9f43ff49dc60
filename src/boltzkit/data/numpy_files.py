"""NumPy files of unknown origin: no pickles, and never more memory than the file has content for.

A header may claim any shape, and an archive may unpack to a thousand times its size. Both are compared with the bytes
that are there before anything is allocated. Whatever is wrong is a ValueError; the reader that knows what the file is
for makes a sentence of it.
"""

import math
import os
import warnings
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from boltzkit.errors import UserError

__all__ = ["Archive", "is_archive", "open_archive", "read_header", "read_npy", "read_series"]

_HEADER = 1 << 16
"""Characters of a header; those of plain numbers have a hundred."""
_SMALL = 1 << 28
"""Bytes that an array may unpack to, however small it is in the archive."""
_RATIO = 100
"""Times its packed size that a larger one may unpack to; coordinates and energies shrink by less than ten."""


def is_archive(path: Path) -> bool:
    """Whether a file begins as .npz files do."""
    with open(path, "rb") as file:
        return file.read(2) == b"PK"


def read_header(file: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Read the header of an array; return its shape, whether it is in Fortran's order, and its number format."""
    with _one_kind_of_error(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # NumPy remarks on headers of old versions
        version = np.lib.format.read_magic(file)
        if version == (1, 0):
            shape, fortran, dtype = np.lib.format.read_array_header_1_0(file)
        elif version == (2, 0):
            if (
                int.from_bytes(file.read(4), "little") > _HEADER
            ):  # up to 4 GB, which NumPy would make room for
                raise ValueError("its header is absurdly long")
            file.seek(-4, os.SEEK_CUR)
            shape, fortran, dtype = np.lib.format.read_array_header_2_0(file)
        else:  # (3, 0) is for fields with names, which plain numbers do not have
            raise ValueError(f"its header has version {version}")
    if dtype.hasobject:
        raise ValueError("it holds Python objects, which could run code, instead of numbers")
    if any(length < 0 for length in shape):
        raise ValueError(f"its header claims the shape {shape}")
    return shape, fortran, dtype


def read_npy(path: Path, *, mapped: bool = False) -> NDArray[Any]:
    """Read a .npy file into memory, or map it: then it is read from disk where it is touched."""
    with open(path, "rb") as file:
        _refuse_claims(file, path.stat().st_size)
        with _one_kind_of_error(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if mapped:
                return np.asarray(np.load(path, mmap_mode="r", allow_pickle=False))
            return np.lib.format.read_array(file, allow_pickle=False)


class Archive:
    """An open .npz file; arrays are read when asked for by name.

    Attributes:
        names: of the arrays.
    """

    def __init__(self, file: zipfile.ZipFile, size: int) -> None:
        self._file, self._size = file, size
        self._entries = {entry.filename.removesuffix(".npy"): entry for entry in file.infolist()}
        self.names = tuple(self._entries)

    def read(self, name: str) -> NDArray[Any]:
        """Return an array."""
        entry = self._entries[name]
        packed = min(entry.compress_size, self._size)
        most = packed if entry.compress_type == zipfile.ZIP_STORED else max(_SMALL, _RATIO * packed)
        if entry.file_size > most:
            raise ValueError(
                f"its array {name} would unpack from {packed:,} to {entry.file_size:,} bytes, which no real data do"
            )
        with _one_kind_of_error(), self._file.open(entry) as content, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            _refuse_claims(content, entry.file_size)
            return np.lib.format.read_array(content, allow_pickle=False)


@contextmanager
def open_archive(path: Path) -> Iterator[Archive]:
    """Open a .npz file."""
    # A file of our own: what opens it itself leaves it open when an archive is damaged.
    with open(path, "rb") as raw:
        with _one_kind_of_error():
            archive = Archive(zipfile.ZipFile(raw), path.stat().st_size)
        yield archive


def _refuse_claims(file: IO[bytes], size: int) -> None:
    """Refuse a header that claims more than a file of some size has, and go back to the beginning."""
    shape, _, dtype = read_header(file)
    there, claimed = size - file.tell(), math.prod(shape) * dtype.itemsize
    if claimed > there:
        raise ValueError(f"its header claims {claimed:,} bytes, but {there:,} are there")
    file.seek(0)


@contextmanager
def _one_kind_of_error() -> Iterator[None]:
    """NumPy and zipfile raise whatever they stumble over in a damaged file."""
    try:
        yield
    except Exception as error:
        raise ValueError(f"{error}".strip().rstrip(".")[:200] or type(error).__name__) from error


def read_series(path: Path) -> NDArray[np.float64]:
    """Read one number per frame from a .npy file, refusing anything else in one sentence."""
    try:
        content = read_npy(path)
    except (ValueError, OSError) as error:
        raise UserError(f"{path} is neither .csv nor a NumPy .npy file ({error}).") from error
    if content.ndim != 1 or content.dtype.kind not in "fiu":
        raise UserError(f"{path} must hold one number per frame, an array of shape (frames,).")
    return content.astype(np.float64)
