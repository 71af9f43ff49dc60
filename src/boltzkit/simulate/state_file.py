"""Where a simulation stands, in one file: everything that its next segment depends on."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from boltzkit.errors import UserError
from boltzkit.storage import write_bytes

__all__ = ["Stand", "claimed", "read_stand", "write_stand"]

_MOST = 1 << 31
"""Trajectories are stored under numbers of 32 bits."""


@dataclass
class Stand:
    """How far a run has come.

    Attributes:
        segments: segments done.
        first_trajectory: number of the run's first trajectory in the dataset.
        trajectories: how many numbers it claims from there.
        config: the settings it was begun with, see `Protocol.identity`.
        tensors: what moves.
        numbers: counters and choices of the run, plain numbers and words.
    """

    segments: int
    first_trajectory: int
    trajectories: int
    config: dict[str, Any]
    tensors: dict[str, Tensor]
    numbers: dict[str, Any]


def write_stand(path: Path, stand: Stand) -> None:
    """Write the file in one step; tensors and numbers always belong together."""
    about = {
        "segments": stand.segments,
        "first_trajectory": stand.first_trajectory,
        "trajectories": stand.trajectories,
        "config": stand.config,
        "numbers": stand.numbers,
    }
    # contiguous() because safetensors takes no views.
    tensors = {name: tensor.contiguous() for name, tensor in stand.tensors.items()}
    write_bytes(path, save(tensors, {"state": json.dumps(about)}))


def read_stand(path: Path, config: dict[str, Any]) -> Stand | None:
    """Read the file, None where there is none; refuse one that was begun with other settings.

    What never finished a segment binds nobody: a first attempt may have exploded.
    """
    if not path.exists():
        return None
    stand = _read(path)
    if stand.config != config and stand.segments == 0:
        return None
    if stand.config != config:
        raise UserError(
            f"{path.parent} was begun with other settings of the sampler: use those, another seed, or another folder."
        )
    return stand


def claimed(path: Path) -> int:
    """Return the smallest number above those of all trajectories that other runs in the folder of a file have claimed.

    A run that still equilibrates has stored nothing, and must find its numbers free when it does.
    """
    stands = [_read(other) for other in path.parent.glob("sampler-*.safetensors") if other != path]
    return max((stand.first_trajectory + stand.trajectories for stand in stands), default=0)


def _read(path: Path) -> Stand:
    try:
        with safe_open(path, framework="pt") as file:
            about = json.loads(file.metadata()["state"])
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        stand = Stand(tensors=tensors, **about)
        _refuse_odd(stand)
        return stand
    except (
        SafetensorError,
        OSError,
        LookupError,
        AttributeError,
        TypeError,
        ValueError,
        RecursionError,
    ) as error:
        raise UserError(f"{path} is damaged: remove it to start the run again, in another folder.") from error


def _refuse_odd(stand: Stand) -> None:
    counts = stand.segments, stand.first_trajectory, stand.trajectories
    if not all(type(count) is int and 0 <= count < _MOST for count in counts):
        raise ValueError("its counts are no counts")
    if not isinstance(stand.config, dict) or not isinstance(stand.numbers, dict):
        raise TypeError("its settings are no settings")
