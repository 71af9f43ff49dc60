"""Frames: the local axes in which atoms are placed, and the levels in which frames can be computed together."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

__all__ = ["Frames", "Levels", "cross"]


@dataclass(frozen=True)
class Levels:
    """Which atoms turn with which, and what waits for what.

    Attributes:
        leaders: for atoms whose torsion refers to one placed around the same bond, that one; they share its frame.
        frames: the three atoms that span the frame of each atom beyond the first three.
        levels: how many frames lie between an atom and the first three; 0 for these.
    """

    leaders: Mapping[int, int]
    frames: Mapping[int, tuple[int, ...]]
    levels: Mapping[int, int]

    @classmethod
    def of(cls, rows: list[list[int]]) -> "Levels":
        """Look at the rows of a z-matrix, in any order in which references come first."""
        leaders: dict[int, int] = {}
        frames: dict[int, tuple[int, ...]] = {}
        levels = {row[0]: 0 for row in rows[:3]}
        for atom, j, k, m in rows[3:]:
            frames[atom] = j, k, m
            if m in frames and m not in leaders and frames[m][:2] == (j, k):
                leaders[atom], frames[atom] = m, frames[m]
            levels[atom] = 1 + max(levels[other] for other in frames[atom])
        return cls(leaders, frames, levels)


class Frames(nn.Module):
    """The frames of some atoms: axis 1 from k to j, axis 2 from that line towards m, axis 3 completes them.

    Args:
        frames: places of j, k and m among the positions given, for each atom; atoms may share a frame.
    """

    references: Tensor
    members: Tensor

    def __init__(self, frames: list[tuple[int, ...]]) -> None:
        super().__init__()
        distinct = list(dict.fromkeys(frames))
        members = [distinct.index(frame) for frame in frames]
        # Fixed by the molecule, so not part of a checkpoint.
        references = torch.tensor(distinct, dtype=torch.int64).reshape(-1, 3).T.flatten()
        self.register_buffer("references", references, persistent=False)
        self.register_buffer("members", torch.tensor(members, dtype=torch.int64), persistent=False)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return origin and axes of each atom's frame, ``(3, atoms, batch)`` each, from positions of that layout."""
        j, k, m = x.index_select(1, self.references).chunk(3, dim=1)
        first = _unit(j - k)
        side = m - k
        second = _unit(side - (first * side).sum(0) * first)
        origin, first, second, third = (
            part.index_select(1, self.members) for part in (j, first, second, cross(first, second))
        )
        return origin, first, second, third


def cross(a: Tensor, b: Tensor) -> Tensor:
    """Return a × b of vectors along the first axis, where torch.linalg.cross is several times slower."""
    return a.roll(-1, 0) * b.roll(1, 0) - a.roll(1, 0) * b.roll(-1, 0)


def _unit(vectors: Tensor) -> Tensor:
    return vectors * vectors.square().sum(0).rsqrt()
