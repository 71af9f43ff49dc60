"""Files that are either complete or absent, whatever happens while they are written."""

import errno
import json
import math
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from boltzkit.errors import UserError

__all__ = ["disk_errors_explained", "finite", "read_json", "write_bytes", "write_folder", "write_json"]

_NO_SPACE = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


@contextmanager
def disk_errors_explained(path: Path) -> Iterator[None]:
    """Turn a full disk or a missing permission into one sentence; everything else passes through."""
    try:
        yield
    except OSError as error:
        if error.errno in _NO_SPACE:
            raise UserError(
                f"No space left to write {path}: free some space and run the same command again; "
                "what was saved before is intact."
            ) from error
        if isinstance(error, PermissionError) or error.errno == errno.EROFS:
            raise UserError(f"Not allowed to write {path}: choose another folder with --out.") from error
        raise


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file so that a reader sees the old content or the new, never a part."""
    with disk_errors_explained(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_name(f".{path.name}.partial")
        try:
            with open(partial, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            os.replace(partial, path)
            _keep_name(path)
        finally:
            partial.unlink(missing_ok=True)


def _keep_name(path: Path) -> None:
    """See to it that a new name outlives a power failure: the folder that holds it is written out too."""
    if os.name != "posix":
        return  # elsewhere a folder cannot be opened
    handle = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_json(path: Path, content: Any) -> None:
    """Write indented JSON; NaN is refused because other tools cannot read it."""
    write_bytes(path, (json.dumps(content, indent=2, allow_nan=False) + "\n").encode())


def finite(value: Any) -> Any:
    """Replace numbers that JSON cannot hold (NaN, ±inf) by null, in nested dicts and lists too.

    >>> finite({"k": [1.0, float("nan")]})
    {'k': [1.0, None]}
    """
    if isinstance(value, Mapping):
        return {key: finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def read_json(path: Path) -> Any:
    """Read JSON, with one sentence when the file is missing or damaged."""
    try:
        text = path.read_text()
        content = json.loads(text)
        if "\\ud" in text.lower():
            json.dumps(
                content, ensure_ascii=False
            ).encode()  # halves of characters, which no message could show
        return content
    except FileNotFoundError as error:
        raise UserError(f"There is no file {path}.") from error
    except OSError as error:
        raise UserError(f"{path} cannot be read ({error.strerror}).") from error
    except (ValueError, RecursionError) as error:  # also numbers of too many digits, and too many brackets
        raise UserError(f"{path} is not valid JSON ({error}); restore it or start a new folder.") from error


def write_folder(path: Path, fill: Callable[[Path], None]) -> None:
    """Fill a new folder through ``fill(partial)``, then move it into place in one step."""
    with disk_errors_explained(path):
        partial = path.with_name(f".{path.name}.partial")
        shutil.rmtree(partial, ignore_errors=True)
        try:
            partial.mkdir(parents=True)
            fill(partial)
            shutil.rmtree(path, ignore_errors=True)
            os.replace(partial, path)
            _keep_name(path)
        finally:
            shutil.rmtree(partial, ignore_errors=True)
