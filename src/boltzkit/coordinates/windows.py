"""Windows: the range of each coordinate that the unit interval stands for."""

import math

import torch
from torch import Tensor

from boltzkit.coordinates.config import CoordinatesConfig

__all__ = ["SHORTEST", "STRAIGHT", "fitted_windows", "reference_windows"]

SHORTEST = 1e-3
"""nm: no window reaches to shorter bonds."""
STRAIGHT = 1e-3
"""rad: no window reaches nearer to angles of 0 and π, where torsions lose their meaning."""


def reference_windows(
    bonds: Tensor, angles: Tensor, n_torsions: int, held: dict[int, int], config: CoordinatesConfig
) -> tuple[Tensor, Tensor]:
    """Return the lower and upper end of every window around a reference structure, ``(dim,)`` each.

    Torsions have the full circle, or the half circle on the side where they are held.

    Args:
        bonds: lengths of the bonds that are free, nm.
        angles: rad.
        n_torsions: how many torsions follow.
        held: side +1 or −1 of the torsions that are held.
        config: widths.
    """
    bond, angle = config.bond_width / 2, config.angle_width * math.pi / 2
    low = torch.tensor([0.0 if held.get(t) == 1 else -math.pi for t in range(n_torsions)], dtype=bonds.dtype)
    high = torch.tensor([0.0 if held.get(t) == -1 else math.pi for t in range(n_torsions)], dtype=bonds.dtype)
    return _clipped(
        torch.cat([bonds - bond, angles - angle, low]),
        torch.cat([bonds + bond, angles + angle, high]),
        len(bonds),
        len(angles),
    )


def fitted_windows(
    values: Tensor, windows: tuple[Tensor, Tensor], sizes: tuple[int, int], margin: float, shrink: bool
) -> tuple[Tensor, Tensor]:
    """Return windows of bonds and angles that contain data, and those of torsions as they are.

    Args:
        values: coordinates of the data, nm and rad, ``(n, dim)``.
        windows: the lower and upper ends to begin with, ``(dim,)`` each.
        sizes: how many bonds and angles there are.
        margin: room beyond the data on each side, as a share of the range they cover.
        shrink: let windows become narrower than they are.
    """
    low, high = values.amin(0), values.amax(0)
    room = margin * (high - low)
    low, high = low - room, high + room
    if not shrink:
        low, high = torch.minimum(low, windows[0]), torch.maximum(high, windows[1])
    low, high = _clipped(low, high, *sizes)
    torsions = slice(sum(sizes), None)
    low[torsions], high[torsions] = windows[0][torsions], windows[1][torsions]
    return low, high


def _clipped(low: Tensor, high: Tensor, n_bonds: int, n_angles: int) -> tuple[Tensor, Tensor]:
    """Cut windows to what exists: bonds have a length, angles lie between 0 and π."""
    low, high = low.clone(), high.clone()
    angles = slice(n_bonds, n_bonds + n_angles)
    low[:n_bonds] = low[:n_bonds].clamp(min=SHORTEST)
    low[angles] = low[angles].clamp(min=STRAIGHT)
    high[angles] = high[angles].clamp(max=math.pi - STRAIGHT)
    return low, high
