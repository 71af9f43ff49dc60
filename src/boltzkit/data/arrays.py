"""Samples from NumPy files."""

import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from boltzkit.energy import Target
from boltzkit.errors import UserError

__all__ = ["read_samples"]


def read_samples(path: Path, target: Target) -> Tensor:
    """Read ``(n, *event)`` samples from a .npy file, or from the array ``x`` of a .npz file, in float64."""
    if not path.is_file():
        raise UserError(f"There is no data file {path}: check data.path.")
    try:
        content = _load(path)
    except (ValueError, OSError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise UserError(f"{path} is not a NumPy .npy or .npz file with plain numbers ({error}).") from error
    if content.shape[1:] != tuple(target.event_shape) or content.dtype.kind not in "fiu":
        raise UserError(
            f"{path} holds {content.dtype} of shape {content.shape}, but {target.name} takes numbers of shape "
            f"(n, {', '.join(map(str, target.event_shape))})."
        )
    return torch.from_numpy(content.astype(np.float64))


def _load(path: Path) -> NDArray[Any]:
    # A file of our own: NumPy leaves the one it opens itself open when an archive is damaged.
    with open(path, "rb") as file:
        content = np.load(file, allow_pickle=False)
        if not isinstance(content, np.lib.npyio.NpzFile):
            return np.asarray(content)
        if "x" not in content.files:
            raise UserError(f"{path} has no array 'x'; it has: {', '.join(content.files) or 'nothing'}.")
        return np.asarray(content["x"])
