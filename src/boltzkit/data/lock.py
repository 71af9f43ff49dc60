"""One writer per folder: a lock that ends with the process that holds it, however it ends."""

import os
from pathlib import Path

from boltzkit.errors import UserError

__all__ = ["FolderLock"]


class FolderLock:
    """An exclusive lock on a folder, held from construction to `release`."""

    def __init__(self, folder: Path) -> None:
        import fcntl  # Unix only; reading datasets works without

        self._handle = os.open(folder / ".lock", os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            holder = os.read(self._handle, 20).decode(errors="replace").strip() or "unknown"
            os.close(self._handle)
            raise UserError(
                f"{folder} is being written by another process (number {holder}): wait until it has finished, or "
                "choose another folder with --out."
            ) from error
        os.ftruncate(self._handle, 0)
        os.write(self._handle, str(os.getpid()).encode())

    def release(self) -> None:
        """Let others write."""
        os.close(self._handle)
