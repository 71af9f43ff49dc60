"""Figures of trainings: validation curves, the variance of the gradient norm, and where the flow puts its samples."""

import math
import statistics
from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from boltzkit.reproduce.experiment import Drawing, Found, Picture
from boltzkit.reproduce.figures import Colour, colours

__all__ = ["gradient_norms", "path_to_target", "ramachandran", "stray_share", "validation_curves"]

_MANY = 8
"""Rows of a block whose legend takes smaller letters, and that are too many to draw side by side."""
_BESIDE = 3
"""Entries of a legend side by side."""
_PANELS = {"validation_nll": "validation NLL", "validation_forward_ess": "validation forward ESS"}


def validation_curves(what: str = "samples") -> Drawing:
    """Draw validation metrics against the step, a row of panels for each block.

    Args:
        what: that blocks are numbers of.
    """

    def draw(found: Sequence[Found]) -> Picture | None:
        groups = list(dict.fromkeys(one.row.group for one in found))
        names = [name for name in _PANELS if any(_moves(one, name) for one in found)]
        if not names:
            return None
        figure = Figure(figsize=(6.2 * len(names), 3.6 * len(groups)), layout="constrained")
        axes = figure.subplots(len(groups), len(names), squeeze=False)
        shades = colours(found)
        for line, group in enumerate(groups):
            members = [one for one in found if one.row.group == group]
            for ax, name in zip(axes[line], names, strict=True):
                _draw_panel(ax, members, name, shades)
                ax.set_title(f"{group} {what}", fontsize=10)
            axes[line, 0].legend(fontsize=8 if len(members) < _MANY else 6)
        caption = "Validation during training, mean over seeds; a curve that turns back shows overfitting."
        return Picture("training.png", figure, caption)

    return draw


def _draw_panel(ax: Axes, members: Sequence[Found], name: str, shades: Mapping[str, Colour]) -> None:
    for one in members:
        _draw_curve(ax, one, name, shades[one.row.label])
    ax.set_xlabel("step")
    ax.set_ylabel(_PANELS[name])
    ax.grid(alpha=0.3)


def path_to_target(found: Sequence[Found]) -> Picture | None:
    """Draw how trainings without data come nearer to the target, against the energy evaluations they took."""
    members = [one for one in found if one.result["metrics"].get("exponent")]
    if not members:
        return None
    # Under the axes, where no number of rows can cover a curve.
    rows_of_legend = -(-len(members) // _BESIDE)
    figure = Figure(figsize=(12.4, 4.2 + 0.2 * rows_of_legend), layout="constrained")
    left, right = figure.subplots(1, 2)
    shades, several = colours(found), len({one.row.group for one in members}) > 1
    for one in members:
        evaluations, exponent, temperature, ess = (
            [values[0] for values in one.result["metrics"][name]]
            for name in ("evaluations", "exponent", "temperature", "ess")
        )
        label = f"{one.row.group}: {one.row.label}" if several else one.row.label
        style = {"color": shades[one.row.label], "marker": ".", "ms": 4, "lw": 1.3}
        left.plot(evaluations, [a / b for a, b in zip(exponent, temperature, strict=True)], **style)
        right.plot(evaluations, [100 * value for value in ess], label=label, **style)
    for ax, words in ((left, "λ/T: share of the target's energy"), (right, "ESS of the newest buffer / %")):
        ax.set(xscale="log", yscale="log", xlabel="energy evaluations", ylabel=words)
        ax.grid(alpha=0.3)
    figure.legend(loc="outside lower center", ncols=_BESIDE, fontsize=8)
    caption = (
        "The way to the target, first seeds: the share of the target's energy in the next intermediate target, which "
        "is 1 when it is the target itself, and the raw ESS that samples drawn there have for the target."
    )
    return Picture("path.png", figure, caption)


def gradient_norms(found: Sequence[Found]) -> Picture | None:
    """Draw the variance of the gradient norm in a sliding window for the largest data set."""
    members = [one for one in found if one.row.group == found[-1].row.group and _variances(one)]
    if not members:
        return None
    figure = Figure(figsize=(7.0, 4.2), layout="constrained")
    ax, shades = figure.subplots(), colours(found)
    for one in members:
        for i, run in enumerate(_variances(one)):
            steps, values = zip(*run, strict=True)
            label = one.row.label if i == 0 else None
            ax.plot(steps, values, color=shades[one.row.label], lw=1.2, alpha=0.8, label=label)
    ax.set_yscale("log")
    ax.set_xlabel("step")
    ax.set_ylabel("variance of the gradient norm")
    ax.grid(alpha=0.3)
    ax.legend(fontsize=8)
    window = members[0].result["metrics"]["gradient_norm"]["window"]
    caption = (
        f"Variance of the L2 gradient norm inside a sliding window of {window:,} steps, before clipping, one line per "
        "seed. The terms of the loss have different scales: compare shapes and spikes, and levels between variants."
    )
    return Picture("gradient_norm.png", figure, caption)


def ramachandran(found: Sequence[Found]) -> Picture | None:
    """Draw (φ, ψ) of the test data and of each row's samples, for the smallest data set and the first residue."""
    members = [one for one in found if one.row.group == found[0].row.group and one.arrays.is_file()][:_MANY]
    if not members:
        return None
    figure = Figure(figsize=(2.9 * (len(members) + 1), 5.6), layout="constrained")
    axes = figure.subplots(2, len(members) + 1, squeeze=False)
    for column, one in enumerate(members, start=1):
        with np.load(one.arrays, allow_pickle=False) as stored:
            data, model, reweighted = (stored[name][0] for name in ("data", "model", "reweighted"))
        _draw_torus(axes[0, 0], data, "test data")
        _draw_torus(axes[0, column], model, one.row.label)
        _draw_torus(axes[1, column], reweighted, "reweighted")
    axes[1, 0].set_axis_off()
    caption = (
        "Negative log of the (φ, ψ) density, dark where it is highest: the test data, samples of the flow as drawn "
        "(above) and reweighted (below); first seed, smallest data set."
    )
    return Picture("ramachandran.png", figure, caption)


def stray_share(one: Found) -> float | None:
    """Return the share of drawn samples in (φ, ψ) cells without any test sample, averaged over residues."""
    if not one.arrays.is_file():
        return None
    with np.load(one.arrays, allow_pickle=False) as stored:
        outside = np.where(stored["data"] > 0, 0.0, stored["model"])
    return float(outside.sum(axis=(1, 2)).mean())


def _moves(one: Found, name: str, least: float = 1e-3) -> bool:
    """Whether there is a curve to see: an ESS that stays at zero is none."""
    values = [v for step in one.result["metrics"].get(name, []) for v in step if v is not None]
    return bool(values) and max(values) - min(values) > least


def _draw_curve(ax: Axes, one: Found, name: str, colour: Colour) -> None:
    metrics = one.result["metrics"]
    points = [
        (step, statistics.fmean(values))
        for step, values in zip(metrics["step"], metrics.get(name, []), strict=False)
        if None not in values
    ]
    if points:
        ax.plot(*zip(*points, strict=True), color=colour, marker=".", ms=4, lw=1.4, label=one.row.label)


def _variances(one: Found) -> list[list[list[float]]]:
    stored = one.result["metrics"].get("gradient_norm", {}).get("variance", [])
    return [run for run in stored if run]


def _draw_torus(ax: Axes, share: NDArray[np.float32], title: str, depth: float = 12.0) -> None:
    with np.errstate(divide="ignore"):
        energy = -np.log(share.T / share.max())
    edges = np.linspace(-math.pi, math.pi, len(share) + 1)
    shown = np.where(np.isfinite(energy), np.minimum(energy, depth), np.nan)
    ax.pcolormesh(edges, edges, shown, cmap="viridis", vmin=0, vmax=depth)
    ax.set_title(title, fontsize=9)
    ax.set_aspect("equal")
    ax.set_xticks([-math.pi, 0, math.pi], ["−π", "0", "π"])
    ax.set_yticks([-math.pi, 0, math.pi], ["−π", "0", "π"])
