"""The figures of a judgement, from what was seen of the flow's samples and of the data."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Tensor

from boltzkit.ensemble import TORUS, Grid, Histogram
from boltzkit.method import Evidence
from boltzkit.report.distributions import Distribution, draw_energies, draw_log_weights
from boltzkit.report.page import png
from boltzkit.report.surface import FreeEnergySurface, SurfaceRow, draw_surface, mark_starts, surface_figure
from boltzkit.storage import write_bytes

__all__ = ["biased_figure", "evaluation_figures", "sample_size_figure", "write_figures"]


def evaluation_figures(evidence: Evidence, clip: float = 1e-4) -> dict[str, Figure]:
    """Return the figures by name: Ramachandran and slow coordinates where they were looked at, energies, log weights.

    Args:
        evidence: what was seen.
        clip: fraction of the largest weights to clip in reweighted histograms, as in the metrics.
    """
    figures = {"energies": _energies(evidence), "log-weights": _log_weights(evidence)}
    if evidence.backbone is not None:
        rows = [_row(evidence, pair, name, clip) for pair, name in enumerate(evidence.backbone.names)]
        figures["ramachandran"] = surface_figure(rows, _ceiling(rows))
    if evidence.tica is not None:
        slow = [_row(evidence, None, "", clip)]
        figures["tica"] = surface_figure(slow, _ceiling(slow))
    return figures


def write_figures(figures: Mapping[str, Figure], folder: Path) -> list[Path]:
    """Write figures as PNG files and return their paths."""
    paths = [folder / f"{name}.png" for name in figures]
    for path, figure in zip(paths, figures.values(), strict=True):
        write_bytes(path, png(figure))
    return paths


def sample_size_figure(angles: Tensor, sizes: Sequence[int]) -> Figure:
    """Return Ramachandran plots of random subsets of data: what can be seen at all with so many samples.

    Args:
        angles: φ and ψ of independent or shuffled samples, ``(n, 2)`` radians.
        sizes: how many samples each plot shows; the first ones of `angles`.
    """
    surfaces = {_power(size): FreeEnergySurface.of(Histogram.of(TORUS, angles[:size])) for size in sizes}
    return surface_figure([SurfaceRow(surfaces, ("φ", "ψ"))])


def biased_figure(angles: Tensor, starts: Tensor) -> Figure:
    """Return the Ramachandran plot of a biased set with the starts of its trajectories marked.

    Args:
        angles: φ and ψ of the set, ``(n, 2)`` radians.
        starts: φ and ψ of the first structures, ``(starts, 2)``.
    """
    surface = FreeEnergySurface.of(Histogram.of(TORUS, angles))
    figure = Figure(figsize=(4.6, 3.7), layout="constrained")
    ax = figure.subplots()
    mesh = draw_surface(ax, surface, surface.highest)
    mark_starts(ax, [(float(phi), float(psi)) for phi, psi in starts])
    ax.set_xlabel("φ")
    ax.set_ylabel("ψ")
    ax.legend(fontsize=8, loc="lower right")
    figure.colorbar(mesh, ax=ax).set_label("$-\\log p$ of the set")
    return figure


def _row(evidence: Evidence, pair: int | None, residue: str, clip: float) -> SurfaceRow:
    """Return data, samples and reweighted samples of one residue's angles, or of the slow coordinates."""
    data, model = evidence.data, evidence.model
    points = {
        name: side.observables["tica"] if pair is None else side.observables["angles"][:, pair]
        for name, side in (("data", data), ("flow", model))
        if side is not None
    }
    grid = TORUS if pair is not None else Grid.around(points.get("data", points["flow"]))
    surfaces = {name: FreeEnergySurface.of(Histogram.of(grid, found)) for name, found in points.items()}
    if model.weights.n_weighted:
        share = model.weights.clipped(clip).normalised()
        surfaces["flow, reweighted"] = FreeEnergySurface.of(Histogram.of(grid, points["flow"], share))
    several = evidence.backbone is not None and len(evidence.backbone.names) > 1
    labels = ("slowest coordinate", "second slowest") if pair is None else ("φ", "ψ")
    if several and pair is not None:
        labels = f"φ of {residue}", f"ψ of {residue}"
    return SurfaceRow(surfaces, labels)


def _ceiling(rows: Sequence[SurfaceRow]) -> float:
    """Return the highest F that one sample among data or the flow's samples can show."""
    shown = [row.surfaces[name] for row in rows for name in ("data", "flow") if name in row.surfaces]
    return max(surface.highest for surface in shown)


def _energies(evidence: Evidence) -> Figure:
    figure = Figure(figsize=(5.6, 3.4), layout="constrained")
    data, model = evidence.data, evidence.model
    energy = _plain(model.energy)
    reweighted = None
    if model.weights.n_weighted:
        reweighted = Distribution("flow, reweighted", energy, _plain(model.weights.normalised()))
    reference = None if data is None else Distribution("data", _plain(data.energy))
    draw_energies(figure.subplots(), reference, Distribution("flow", energy), reweighted)
    return figure


def _log_weights(evidence: Evidence) -> Figure:
    figure = Figure(figsize=(5.6, 3.4), layout="constrained")
    data, model = evidence.data, evidence.model
    log_z = model.weights.log_mean() if model.weights.n_weighted else 0.0
    reference = None if data is None else Distribution("data", _plain(data.weights.values))
    draw_log_weights(figure.subplots(), Distribution("flow", _plain(model.weights.values)), reference, log_z)
    return figure


def _plain(values: Tensor) -> "np.ndarray[tuple[int, ...], np.dtype[np.float64]]":
    return values.to(torch.float64).numpy()


def _power(size: int) -> str:
    exponent = int(np.floor(np.log10(size)))
    mantissa = size / 10**exponent
    return (
        f"$10^{{{exponent}}}$ samples" if mantissa == 1 else f"${mantissa:g}\\cdot 10^{{{exponent}}}$ samples"
    )
