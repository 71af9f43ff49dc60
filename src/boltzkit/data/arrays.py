"""Samples from NumPy files."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from boltzkit.data.numpy_files import is_archive, open_archive, read_npy
from boltzkit.energy import Target
from boltzkit.errors import UserError

__all__ = ["read_samples"]


def read_samples(path: Path, target: Target) -> Tensor:
    """Read ``(n, *event)`` samples from a .npy file, or from the array ``x`` of a .npz file, in float64."""
    if not os.path.isfile(path):  # unlike Path's own, no error for a name that no file can have
        raise UserError(f"There is no data file {path}: check data.path.")
    try:
        content = _load(path)
    except (ValueError, OSError) as error:
        raise UserError(f"{path} is not a NumPy .npy or .npz file with plain numbers ({error}).") from error
    if content.shape[1:] != tuple(target.event_shape) or content.dtype.kind not in "fiu":
        raise UserError(
            f"{path} holds {content.dtype} of shape {content.shape}, but {target.name} takes numbers of shape "
            f"(n, {', '.join(map(str, target.event_shape))})."
        )
    return torch.from_numpy(content.astype(np.float64))


def _load(path: Path) -> NDArray[Any]:
    if not is_archive(path):
        return read_npy(path)
    with open_archive(path) as archive:
        if "x" not in archive.names:
            raise UserError(f"{path} has no array 'x'; it has: {', '.join(archive.names) or 'nothing'}.")
        return archive.read("x")
