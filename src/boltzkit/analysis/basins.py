"""Basins of an angle: the arcs between the barriers of its free-energy profile."""

import math
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

__all__ = ["Arc", "basins"]

_BINS = 72
_SMOOTHING = math.radians(8.0)
"""Width of the kernel that noise of single bins is smoothed with."""
_TWO_PI = 2 * math.pi


class Arc(NamedTuple):
    """A part of the circle, from `low` onwards."""

    low: float
    """Where it begins, rad."""
    width: float
    """How far it goes, rad; 2π for the whole circle."""
    centre: float
    """The deepest point in it."""

    def holds(self, angle: Tensor) -> Tensor:
        """Return which angles lie on it, ``(n,)``; NaN never does."""
        return torch.remainder(angle - self.low, _TWO_PI) < self.width


def basins(angles: Tensor, share: Tensor, *, barrier: float = 1.0, smallest: float = 0.002) -> list[Arc]:
    """Return the basins of weighted angles, in ascending order from −π; together they are the whole circle.

    A smoothed histogram is cut at its maxima of free energy. Basins with less than `barrier` between them count as
    one, and those with less than `smallest` of the weight belong to the neighbour behind the lower barrier.

    Args:
        angles: radians, ``(n,)``, finite.
        share: normalised weights, ``(n,)``.
        barrier: k_BT between the higher minimum and the saddle.
        smallest: population that a basin must have.
    """
    place = torch.remainder(angles.double() + math.pi, _TWO_PI) * (_BINS / _TWO_PI)
    mass = torch.bincount(place.floor().long() % _BINS, share.double(), _BINS)
    energy = -_smoothed(mass).log()
    cuts = [
        _Cut(i, float(energy[i]))
        for i in range(_BINS)
        if energy[i - 1] <= energy[i] > energy[(i + 1) % _BINS]
    ]
    while len(cuts) > 1:
        worst = _needless(cuts, energy, mass, barrier, smallest)
        if worst is None:
            break
        del cuts[worst]
    return _arcs(cuts, energy)


@dataclass(frozen=True)
class _Cut:
    bin: int
    energy: float


def _smoothed(mass: Tensor) -> Tensor:
    offset = torch.arange(_BINS, dtype=torch.float64) * (_TWO_PI / _BINS)
    apart = torch.minimum(offset, _TWO_PI - offset)
    kernel = torch.exp(-0.5 * (apart / _SMOOTHING) ** 2)
    smooth: Tensor = torch.fft.irfft(torch.fft.rfft(mass) * torch.fft.rfft(kernel / kernel.sum()), n=_BINS)
    # Beyond the reach of the kernel there is rounding only, which must not look like structure.
    return smooth.clamp(min=1e-12)


def _needless(cuts: list[_Cut], energy: Tensor, mass: Tensor, barrier: float, smallest: float) -> int | None:
    """Return the cut to take away next: the lowest barrier above its higher minimum, if it or a basin is too small."""
    pieces = [_between(cuts[i].bin, cuts[(i + 1) % len(cuts)].bin) for i in range(len(cuts))]
    deepest = [float(energy[piece].min()) for piece in pieces]
    weight = [float(mass[piece].sum()) for piece in pieces]
    # Piece i lies after cut i: cut i stands between the pieces i − 1 and i.
    heights = [cut.energy - max(deepest[i - 1], deepest[i]) for i, cut in enumerate(cuts)]
    low = min(range(len(cuts)), key=heights.__getitem__)
    if heights[low] < barrier:
        return low
    light = min(range(len(cuts)), key=weight.__getitem__)
    if weight[light] >= smallest:
        return None
    after = (light + 1) % len(cuts)
    return light if cuts[light].energy <= cuts[after].energy else after


def _between(first: int, last: int) -> list[int]:
    """Return the bins from one cut to before the next, around the circle; all, if they are one cut."""
    count = (last - first) % _BINS or _BINS
    return [(first + i) % _BINS for i in range(count)]


def _arcs(cuts: list[_Cut], energy: Tensor) -> list[Arc]:
    step = _TWO_PI / _BINS
    if len(cuts) < 2:
        return [Arc(-math.pi, _TWO_PI, -math.pi + (int(energy.argmin()) + 0.5) * step)]
    arcs = []
    for i, cut in enumerate(cuts):
        piece = _between(cut.bin, cuts[(i + 1) % len(cuts)].bin)
        # A cut goes through the middle of its bin.
        centre = min(piece, key=lambda place: float(energy[place]))
        arcs.append(
            Arc(-math.pi + (cut.bin + 0.5) * step, len(piece) * step, -math.pi + (centre + 0.5) * step)
        )
    return arcs
