"""How far apart two histograms are: the paper's KL divergences, with their error and what chance alone gives."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from boltzkit.ensemble.blocks import jackknife_variance
from boltzkit.ensemble.histogram import TORUS, Grid, Histogram
from boltzkit.randomness import generator
from boltzkit.weights import normal_quantile

__all__ = ["Divergence", "histogram_divergence", "null_corrected", "ramachandran_divergence"]

_EPSILON = 1e-10
"""Density added to every bin of both histograms, as in the paper."""
_REPEATS = 20
"""Draws that a floor is averaged over."""


@dataclass(frozen=True)
class Divergence:
    """KL(data ‖ model) between histograms.

    Attributes:
        value: nats, the mean over pairs of coordinates.
        standard_error: spread of the value over repetitions with as many data and samples.
        low: lower end of the interval of confidence for the mean of such repetitions.
        high: its upper end.
        floor: what two samples of these effective sizes from one and the same distribution give. Value minus floor
            estimates the divergence itself. The floor is a little low, because bins that neither sample reached are
            unknown to it; and too high for weights far from equal, whose light samples reach more bins than as
            many equal ones as they are worth.
        n_data: effective number of data.
        n_model: effective number of model samples.
        outside: share of the model's weight beyond the range of the data; it is missing from the model's histogram,
            which makes the value larger.
        confidence: of the interval.
    """

    value: float
    standard_error: float
    low: float
    high: float
    floor: float
    n_data: float
    n_model: float
    outside: float
    confidence: float = 0.95


def histogram_divergence(
    data: Sequence[Histogram], model: Sequence[Histogram], confidence: float = 0.95
) -> Divergence:
    r"""Compare histograms of data with those of a model on the same grids, one for each pair of coordinates.

    $$\sum_\mathrm{bins} p \log\frac{p}{q}\,\Delta^2$$

    averaged over pairs. p is normalised within the grid; q over all samples, those outside included.

    The floor is the same number for two histograms of independent draws from one distribution, the mean of the two:
    with few samples per bin, and bins that only one of them reaches, it is far above the textbook's
    K/2 (1/n_data + 1/n_model) for K bins. The error comes from leaving out one block at a time, see `null_corrected`.
    """
    value, without_data, without_model, floors = 0.0, [], [], []
    for number, (p, q) in enumerate(zip(data, model, strict=True)):
        area = p.grid.area
        p_whole, q_whole = _inside(p.whole(), area), q.whole()[:-1] / area
        value += float(_divergence(p_whole, q_whole, area)) / len(data)
        without_data.append(_divergence(_inside(p.leaving_out(), area), q_whole, area))
        without_model.append(_divergence(p_whole, q.leaving_out()[:, :-1] / area, area))
        random = generator(0, "histogram floor", number)
        floors.append(_floors(0.5 * (p_whole + q_whole), area, p.effective, q.effective, random))
    found = sum(jackknife_variance(torch.stack(w).mean(0)) for w in (without_data, without_model))
    floor = torch.stack(floors).mean(0)
    error = math.sqrt(null_corrected(found, float(floor.var())))
    half = normal_quantile(confidence) * error
    return Divergence(
        value,
        error,
        value - half,
        value + half,
        floor=float(floor.mean()),
        n_data=sum(h.effective for h in data) / len(data),
        n_model=sum(h.effective for h in model) / len(model),
        outside=sum(h.outside for h in model) / len(model),
        confidence=confidence,
    )


def ramachandran_divergence(
    data: Tensor,
    model: Tensor,
    weights: Tensor | None = None,
    *,
    blocks: Tensor | None = None,
    grid: Grid = TORUS,
) -> Divergence:
    """Compare angles of two samples, ``(n, pairs, 2)`` radians each, over the whole torus.

    Args:
        data: samples of the target.
        model: samples to judge.
        weights: importance weights of the model's samples, normalised or not.
        blocks: which data belong together, ``(n,)``; independent by default.
        grid: the cells.
    """
    pairs = range(data.shape[1])
    return histogram_divergence(
        [Histogram.of(grid, data[:, pair], block=blocks) for pair in pairs],
        [Histogram.of(grid, model[:, pair], weights) for pair in pairs],
    )


def null_corrected(found: float, null: float) -> float:
    r"""Return the variance of a distance of two samples from that by blocks and that between equal distributions.

    Such a distance is d² for a noisy difference d = δ + ε, ε of variance σ². Its variance is 4δ²σ² + 2σ⁴, while blocks
    see 4d²σ², on average 4δ²σ² + 4σ⁴: twice too much where the distributions agree. ``null`` is the 2σ⁴ of equal
    distributions, and what blocks see beyond it is right in both limits.

    Args:
        found: variance from leaving out blocks.
        null: variance over pairs of samples of one distribution.
    """
    return max(found - null, null)


def _divergence(p: Tensor, q: Tensor, area: float) -> Tensor:
    return (p * torch.log((p + _EPSILON) / (q + _EPSILON))).sum(-1) * area


def _inside(probability: Tensor, area: float) -> Tensor:
    """Return the density within the grid from probabilities of its cells and outside."""
    within = probability[..., :-1]
    return within / (within.sum(-1, keepdim=True) * area)


def _floors(density: Tensor, area: float, n_data: float, n_model: float, random: torch.Generator) -> Tensor:
    expected = (density / density.sum()).expand(_REPEATS, -1)
    counts = [torch.poisson(n * expected, generator=random) for n in (n_data, n_model)]
    p, q = (count / (count.sum(-1, keepdim=True).clamp(min=1) * area) for count in counts)
    return _divergence(p, q, area)
