"""Bond lengths, angles and torsions to positions and back, all atoms of one level at once.

Every atom stands in a frame of three placed atoms j, k, m, its bond, angle and torsion reference. From j it is at
b (−cos θ, sin θ cos τ, sin θ sin τ) along the frame's axes. Atoms whose torsion refers to a leader around the same
bond k-j share the leader's frame, their torsions added. All frames of one level are computed together; a molecule has
about half as many levels as its longest chain has bonds.

The layout is ``(3, atoms, batch)``: the batch is innermost, so that every operation is a loop over configurations.
"""

import math

import torch
from torch import Tensor, nn

from boltzkit.coordinates.frames import Frames, Levels, cross
from boltzkit.coordinates.zmatrix import ZMatrix

__all__ = ["Placement"]


class Placement(nn.Module):
    """The map between the coordinates of a z-matrix and positions, differentiable both ways.

    Coordinates come in the z-matrix's order: the bonds of its rows from the second on, the angles from the third,
    the torsions from the fourth, each ``(number, batch)``.
    """

    order: Tensor
    rank: Tensor
    leaders: Tensor

    def __init__(self, zmatrix: ZMatrix) -> None:
        super().__init__()
        order = zmatrix.rows[:, 0].tolist()
        rank = {atom: place for place, atom in enumerate(order)}
        found = Levels.of(zmatrix.rows.tolist())
        # Place 0 is the zero that is added to a leader's own torsion.
        leaders = [rank[found.leaders[atom]] - 2 if atom in found.leaders else 0 for atom in order[3:]]
        self.register_buffer("order", torch.tensor(order), persistent=False)
        self.register_buffer("rank", torch.argsort(torch.tensor(order)), persistent=False)
        self.register_buffer("leaders", torch.tensor(leaders, dtype=torch.int64), persistent=False)
        self.frames = Frames([tuple(rank[a] for a in found.frames[atom]) for atom in order[3:]])
        self.levels = nn.ModuleList()
        self._sizes: list[int] = []
        self._reach: list[int] = []
        for level in range(1, max(found.levels.values()) + 1):
            self._add_level([atom for atom in order if found.levels[atom] == level], found, rank)

    def _add_level(self, atoms: list[int], found: Levels, rank: dict[int, int]) -> None:
        """Prepare a level; its frames look no further back than to the level it reaches."""
        frames = [found.frames[atom] for atom in atoms]
        reach = min(found.levels[atom] for frame in frames for atom in frame)
        start = 3 + sum(self._sizes[: reach - 1]) if reach else 0
        self.levels.append(Frames([tuple(rank[atom] - start for atom in frame) for frame in frames]))
        self._sizes.append(len(atoms))
        self._reach.append(reach)

    def place(self, bonds: Tensor, angles: Tensor, torsions: Tensor) -> Tensor:
        """Return positions ``(3, atoms, batch)``: the first atom at 0, the second on x, the third in the xy-plane."""
        parts = [_seeds(bonds[:2], angles[:1])]
        turns = torsions + _behind_zero(torsions).index_select(0, self.leaders)
        # Split once, not sliced level by level: the gradient of every slice would be as large as the whole.
        local = _polar(bonds[2:], angles[1:], turns).split_with_sizes(self._sizes, dim=1)
        for frames, reach, (along, across, beyond) in zip(self.levels, self._reach, local, strict=True):
            origin, first, second, third = frames(torch.cat(parts[reach:], dim=1))
            placed = origin.addcmul(along, first).addcmul(across, second).addcmul(beyond, third)
            parts.append(placed)
        return torch.cat(parts, dim=1).index_select(1, self.rank)

    def measure(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return bonds (nm), angles (0 to π) and torsions (−π to π) of positions ``(3, atoms, batch)``."""
        x = x.index_select(1, self.order)
        origin, *axes = self.frames(x)
        arm = x[:, 3:] - origin
        along, across, beyond = ((arm * axis).sum(0) for axis in axes)
        turns = torch.atan2(beyond, across)
        turns = _wrapped(turns - _behind_zero(turns).index_select(0, self.leaders))
        away = across.square() + beyond.square()
        lengths, bends = _seed_values(x[:, :3])
        return (
            torch.cat([lengths, (along.square() + away).sqrt()]),
            torch.cat([bends, torch.atan2(away.sqrt(), -along)]),
            turns,
        )


def _polar(bonds: Tensor, angles: Tensor, torsions: Tensor) -> Tensor:
    across = bonds * angles.sin()
    return torch.stack([-bonds * angles.cos(), across * torsions.cos(), across * torsions.sin()])


def _seeds(bonds: Tensor, angles: Tensor) -> Tensor:
    """Return the first two or three atoms, ``(3, 2 or 3, batch)``."""
    zero = torch.zeros_like(bonds[0])
    x, y = [zero, bonds[0]], [zero, zero]
    if len(angles):
        x.append(bonds[0] - bonds[1] * angles[0].cos())
        y.append(bonds[1] * angles[0].sin())
    return torch.stack([torch.stack(x), torch.stack(y), torch.stack([zero] * len(x))])


def _seed_values(x: Tensor) -> tuple[Tensor, Tensor]:
    steps = x[:, 1:] - x[:, :-1]
    back, ahead = -steps[:, :-1], steps[:, 1:]
    angles = torch.atan2(cross(back, ahead).square().sum(0).sqrt(), (back * ahead).sum(0))
    return steps.square().sum(0).sqrt(), angles


def _behind_zero(rows: Tensor) -> Tensor:
    return torch.cat([rows.new_zeros(1, rows.shape[1]), rows])


def _wrapped(angles: Tensor) -> Tensor:
    # Leaves angles within ±π as they are, to the last digit. A device that multiplies by 1/2π may end one digit beyond.
    return (angles - 2 * math.pi * torch.round(angles / (2 * math.pi))).clamp(-math.pi, math.pi)
