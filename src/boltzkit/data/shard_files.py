"""The files of a shard: written once, checked by size and header when opened, memory-mapped when read."""

import hashlib
import io
import math
import mmap
import os
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from boltzkit.data.manifest import StoredFile
from boltzkit.data.numpy_files import read_header
from boltzkit.storage import write_bytes

__all__ = ["PageBudget", "ShardFile", "sync_folder", "write_shard_file"]

_PER_ROW = 1 << 21
"""Bytes that one row read at random may make resident: kernels map what is cached around it, up to a huge page."""
_BUDGET = 1 << 29
"""Bytes of mapped files that may stay resident."""


def write_shard_file(folder: Path, name: str, content: NDArray[Any]) -> StoredFile:
    """Write an array as .npy, complete or not at all, and return its size and checksum."""
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, np.ascontiguousarray(content), version=(1, 0), allow_pickle=False)
    data = buffer.getvalue()
    write_bytes(folder / name, data)
    return StoredFile(name=name, size=len(data), sha256=hashlib.sha256(data).hexdigest())


def sync_folder(folder: Path) -> None:
    """Wait until renamed files are on the disk under their new names."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


class ShardFile:
    """One column of one shard.

    Args:
        folder: the dataset folder.
        stored: name, size and checksum by the manifest.
        dtype: the number format it must have.
        shape: the shape it must have.
    """

    def __init__(self, folder: Path, stored: StoredFile, dtype: str, shape: tuple[int, ...]) -> None:
        self.path = folder / stored.name
        self.stored, self.dtype, self.shape = stored, np.dtype(dtype), shape
        self._offset = 0

    def damage(self) -> str | None:
        """Return what a look at size and header finds wrong, None when all is well."""
        if not self.path.is_file():  # nor anything that is no file, such as a pipe, which would be waited for
            return f"{self.stored.name} is missing"
        try:
            with open(self.path, "rb") as file:
                size = os.fstat(file.fileno()).st_size
                if size != self.stored.size:
                    return f"{self.stored.name} has {size:,} of {self.stored.size:,} bytes"
                shape, fortran, dtype = read_header(file)
                self._offset = file.tell()
        except (OSError, ValueError) as error:
            return f"{self.stored.name} has no readable header ({error})"
        if shape != self.shape or dtype != self.dtype or fortran:
            return (
                f"{self.stored.name} holds {dtype} of shape {shape}, not {self.dtype} of shape {self.shape}"
            )
        expected = self._offset + self.dtype.itemsize * math.prod(self.shape)
        return None if size == expected else f"{self.stored.name} has {size:,} bytes, not {expected:,}"

    def altered(self) -> str | None:
        """Return a sentence when the content is not what was written; reads the whole file."""
        with open(self.path, "rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        return None if digest == self.stored.sha256 else f"{self.stored.name} has another checksum"

    @cached_property
    def _map(self) -> mmap.mmap:
        with open(self.path, "rb") as file:
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)

    @cached_property
    def array(self) -> NDArray[Any]:
        """The content, mapped: read from disk where it is touched."""
        return np.frombuffer(self._map, dtype=self.dtype, offset=self._offset).reshape(self.shape)

    def release(self) -> None:
        """Give resident pages back; the mapping stays valid and reads them again when needed."""
        self._map.madvise(mmap.MADV_DONTNEED)


class PageBudget:
    """Keeps what random reading makes resident small; the pages stay in the kernel's cache."""

    def __init__(self) -> None:
        self._touched: dict[int, ShardFile] = {}
        self._resident = 0

    def touch(self, file: ShardFile, rows: int) -> None:
        """Note that rows of a file were read, and release all files once the budget is spent."""
        self._touched[id(file)] = file
        self._resident += min(rows * _PER_ROW, file.stored.size)
        if self._resident > _BUDGET:
            for other in self._touched.values():
                other.release()
            self._touched.clear()
            self._resident = 0
