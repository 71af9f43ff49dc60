"""A metric against the number of training samples, one line per method."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes

__all__ = ["Series", "draw_by_size"]


@dataclass(frozen=True)
class Series:
    """Mean and spread of a metric at each size, and reference points where there are any."""

    label: str
    sizes: Sequence[int]
    means: Sequence[float]
    spreads: Sequence[float]
    reference: Mapping[int, float]


def draw_by_size(ax: Axes, series: Sequence[Series], ylabel: str, xlabel: str = "training samples") -> None:
    """Draw lines with error bars, and the reference values as open diamonds in the same colour."""
    for index, line in enumerate(series):
        colour = f"C{index}"
        # A little apart on the logarithmic axis, so that error bars do not hide each other.
        apart = 1.04 ** (index - (len(series) - 1) / 2)
        x = [size * apart for size in line.sizes]
        ax.errorbar(x, line.means, line.spreads, color=colour, marker="o", ms=5, capsize=3, label=line.label)
        known = [(size * apart, value) for size, value in line.reference.items()]
        if known:
            ax.plot(*zip(*known, strict=True), "D", mfc="none", color=colour, ms=8)
    if any(line.reference for line in series):
        ax.plot([], [], "D", mfc="none", color="0.4", ms=8, label="paper")
    ax.set_xscale("log")
    ax.set_xlabel(xlabel)
    ax.set_ylabel(ylabel)
    ax.grid(alpha=0.3)
    ax.legend(fontsize=8)
