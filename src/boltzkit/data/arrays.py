"""Samples from NumPy files."""

from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from boltzkit.energy import Target
from boltzkit.errors import UserError

__all__ = ["read_samples"]


def read_samples(path: Path, target: Target) -> Tensor:
    """Read ``(n, *event)`` samples from a .npy file, or from the array ``x`` of a .npz file, in float64."""
    if not path.is_file():
        raise UserError(f"There is no data file {path}: check data.path.")
    try:
        content = np.load(path, allow_pickle=False)
    except (ValueError, OSError, EOFError) as error:
        raise UserError(f"{path} is not a NumPy .npy or .npz file with plain numbers ({error}).") from error
    if isinstance(content, np.lib.npyio.NpzFile):
        with content:
            if "x" not in content.files:
                raise UserError(f"{path} has no array 'x'; it has: {', '.join(content.files) or 'nothing'}.")
            content = content["x"]
    if content.shape[1:] != tuple(target.event_shape) or content.dtype.kind not in "fiu":
        raise UserError(
            f"{path} holds {content.dtype} of shape {content.shape}, but {target.name} takes numbers of shape "
            f"(n, {', '.join(map(str, target.event_shape))})."
        )
    return torch.from_numpy(content.astype(np.float64))
