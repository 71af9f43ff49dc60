"""How far apart two distributions of (φ, ψ) are: the paper's Ramachandran divergence, with what chance alone gives."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from boltzkit.randomness import generator

__all__ = ["Divergence", "ramachandran_divergence", "torus_histogram"]

BINS = 100
"""Per axis, as in the paper."""
_AREA = (2 * math.pi / BINS) ** 2
_REPEATS = 4
"""Draws that a floor is averaged over."""
_EPSILON = 1e-10
"""Density added to every bin of both histograms, as in the paper."""


@dataclass(frozen=True)
class Divergence:
    """KL(data ‖ model) between histograms.

    Attributes:
        value: nats, the mean over pairs of angles.
        floor: what two samples of these effective sizes from one and the same distribution give; a little low,
            because bins that neither sample reached are unknown to it.
    """

    value: float
    floor: float


def torus_histogram(angles: Tensor, weights: Tensor | None = None, bins: int = BINS) -> Tensor:
    """Return the density of ``(n, 2)`` angles in radians on a grid over the whole torus, ``(bins, bins)``.

    Angles that are not finite are left out.
    """
    finite = angles.isfinite().all(-1)
    cell = ((angles[finite].double() + math.pi) * (bins / (2 * math.pi))).floor().long() % bins
    flat = cell[:, 0] * bins + cell[:, 1]
    count = torch.bincount(
        flat, weights=None if weights is None else weights[finite].double(), minlength=bins * bins
    )
    return (count / (count.sum() * (2 * math.pi / bins) ** 2)).double().reshape(bins, bins)


def ramachandran_divergence(
    data: Tensor,
    model: Tensor,
    weights: Tensor | None = None,
    *,
    n_data: float | None = None,
    n_model: float | None = None,
) -> Divergence:
    r"""Compare angles of two samples, ``(n, pairs, 2)`` radians each.

    $$\sum_\mathrm{bins} p \log\frac{p}{q}\,\Delta^2$$

    averaged over the (φ, ψ) pairs of a molecule. The floor is the same number for histograms of n_data and n_model
    independent draws from one distribution, the mean of the two: with few samples per bin, and bins that only one
    of them reaches, it is far above the textbook's K/2 (1/n_data + 1/n_model) for K bins.

    Args:
        data: samples of the target.
        model: samples to judge.
        weights: importance weights of the model's samples, normalised or not.
        n_data: effective number of data; their number by default.
        n_model: effective number of model samples; by default their number, or the ESS of their weights.
    """
    n_data = float(len(data)) if n_data is None else n_data
    if n_model is None:
        n_model = float(len(model)) if weights is None else _effective(weights)
    values, floors = [], []
    for pair in range(data.shape[1]):
        p = torus_histogram(data[:, pair])
        q = torus_histogram(model[:, pair], weights)
        values.append(_divergence(p, q))
        floors.append(_floor(0.5 * (p + q), n_data, n_model, generator(0, "histogram floor", pair)))
    return Divergence(sum(values) / len(values), sum(floors) / len(floors))


def _divergence(p: Tensor, q: Tensor) -> float:
    return float((p * torch.log((p + _EPSILON) / (q + _EPSILON))).sum() * _AREA)


def _floor(density: Tensor, n_data: float, n_model: float, random: torch.Generator) -> float:
    expected = density / density.sum()
    found = []
    for _ in range(_REPEATS):
        counts = [torch.poisson(n * expected, generator=random) for n in (n_data, n_model)]
        p, q = (count / (count.sum().clamp(min=1) * _AREA) for count in counts)
        found.append(_divergence(p, q))
    return sum(found) / _REPEATS


def _effective(weights: Tensor) -> float:
    weights = weights.double()
    return float(weights.sum() ** 2 / weights.square().sum())
