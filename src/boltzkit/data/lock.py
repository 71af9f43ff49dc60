"""One writer per folder: a lock that ends with the process that holds it, however it ends."""

import os
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from boltzkit.errors import UserError
from boltzkit.storage import disk_errors_explained

__all__ = ["FolderLock", "sole_writer"]


class FolderLock:
    """An exclusive lock on a folder, held from construction to `release`, or for as long as somebody has it."""

    def __init__(self, folder: Path) -> None:
        path, handle = folder / ".lock", None
        while handle is None:
            handle = _locked(path)
        os.ftruncate(handle, 0)
        os.write(handle, str(os.getpid()).encode())
        self._close = weakref.finalize(self, os.close, handle)

    def release(self) -> None:
        """Let others write."""
        self._close()


def _locked(path: Path) -> int | None:
    """Return the open, locked file; None where it was removed before it was locked.

    Who held it may have removed the folder and ended: a lock on a file without a name keeps nobody out.
    """
    import fcntl  # Unix only; reading datasets works without

    with disk_errors_explained(path.parent):
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        holder = os.read(handle, 20).decode(errors="replace").strip() or "unknown"
        os.close(handle)
        raise UserError(
            f"{path.parent} is being written by another process (number {holder}): wait until it has finished, or "
            "choose another folder with --out."
        ) from error
    if os.fstat(handle).st_nlink:
        return handle
    os.close(handle)
    return None


@contextmanager
def sole_writer(folder: Path, patience: float = 60.0) -> Iterator[None]:
    """Hold the lock of a folder, which is created where it is not there.

    Work that is tried again after its worker was lost waits a while: a machine that was given up may still be writing.

    Args:
        folder: what only one process may write.
        patience: seconds to wait for another one.
    """
    end = time.monotonic() + patience
    while True:
        with disk_errors_explained(folder):
            folder.mkdir(parents=True, exist_ok=True)
        try:
            lock = FolderLock(folder)
            break
        except FileNotFoundError:  # its last holder removed the folder in between
            continue
        except UserError:
            if time.monotonic() > end:
                raise
            time.sleep(0.5)
    try:
        yield
    finally:
        lock.release()
