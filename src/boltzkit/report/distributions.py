"""One-dimensional distributions that judge a flow: energies, and log weights."""

from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import PercentFormatter
from numpy.typing import NDArray

__all__ = ["Distribution", "draw_energies", "draw_log_weights"]

_COLOURS = ("0.72", "#d95f02", "#1f4e9c")
_BINS = 150


@dataclass(frozen=True, eq=False)
class Distribution:
    """Numbers with a name.

    Attributes:
        label: what they are.
        values: ``(n,)``; those that are not finite are not drawn.
        weights: ``(n,)``, or none for equal ones.
    """

    label: str
    values: NDArray[np.float64]
    weights: NDArray[np.float64] | None = None

    def density(self, edges: NDArray[np.float64]) -> tuple[NDArray[np.float64], float]:
        """Return the density in bins, of all numbers, and the share of those that lie beyond the bins."""
        finite = np.isfinite(self.values)
        weights = None if self.weights is None else self.weights[finite]
        total = len(self.values) if self.weights is None else float(self.weights.sum())
        inside, _ = np.histogram(self.values[finite], edges, weights=weights)
        return inside / (total * np.diff(edges)), 1 - float(inside.sum()) / total


def draw_energies(
    ax: Axes, data: Distribution | None, model: Distribution, reweighted: Distribution | None
) -> None:
    """Draw reduced energies of data as an area, those of the flow as lines; what lies beyond is said in the legend."""
    reference = data or reweighted or model
    edges = _range(reference.values, reference.weights, lowest=1e-4, margin=0.25)
    if data is not None:
        _area(ax, data, edges)
    for colour, line in zip(_COLOURS[1:], (model, reweighted), strict=True):
        if line is not None:
            _line(ax, line, edges, colour)
    ax.set_xlabel("reduced energy $u$ / $k_\\mathrm{B}T$")
    ax.set_ylabel("density")
    ax.set_ylim(bottom=0)
    _finish(ax, edges)


def draw_log_weights(ax: Axes, model: Distribution, data: Distribution | None, log_z: float) -> None:
    """Draw f − log Z: all at zero for a perfect flow; samples of the flow pile up left of it, data right of it.

    Args:
        ax: where.
        model: log weights of the flow's samples.
        data: log weights of data, if any.
        log_z: the logarithm of the mean weight.
    """
    both = [model] if data is None else [model, data]
    shifted = [Distribution(d.label, d.values - log_z, d.weights) for d in both]
    joined = np.concatenate([d.values[np.isfinite(d.values)] for d in shifted])
    # The worst samples of a flow have weights of next to nothing, far to the left.
    edges = _range(joined, None, lowest=5e-3, margin=0.1)
    ax.axvline(0.0, color="0.35", lw=0.9, ls=(0, (4, 3)))
    if data is not None:
        _area(ax, shifted[1], edges)
    _line(ax, shifted[0], edges, _COLOURS[2])
    ax.set_yscale("log")
    ax.set_xlabel("log weight $f - \\log Z$")
    ax.set_ylabel("density")
    _finish(ax, edges)


def _area(ax: Axes, found: Distribution, edges: NDArray[np.float64]) -> None:
    density, beyond = found.density(edges)
    ax.stairs(density, edges, fill=True, color=_COLOURS[0], label=found.label + _remark(beyond))


def _line(ax: Axes, found: Distribution, edges: NDArray[np.float64], colour: str) -> None:
    density, beyond = found.density(edges)
    ax.stairs(density, edges, color=colour, lw=1.6, label=found.label + _remark(beyond))


def _remark(beyond: float) -> str:
    return f" ({PercentFormatter(1.0).format_pct(beyond, 0.01)} beyond)" if beyond >= 1e-4 else ""


def _range(
    values: NDArray[np.float64], weights: NDArray[np.float64] | None, lowest: float, margin: float
) -> NDArray[np.float64]:
    """Return bin edges from a low quantile to nearly the largest number, and a margin on both sides."""
    kept = np.isfinite(values) & (weights > 0 if weights is not None else True)
    low, high = np.quantile(values[kept], [lowest, 1 - 1e-4])
    wider = margin * (high - low) + 1e-9
    return np.linspace(low - wider, high + wider, _BINS + 1)


def _finish(ax: Axes, edges: NDArray[np.float64]) -> None:
    ax.set_xlim(edges[0], edges[-1])
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(frameon=False, fontsize=9)
