"""Wasserstein distances in several dimensions, at the few samples that exact optimal transport allows.

Related work gives them on torsions and slow coordinates from 10⁴ samples. With as many samples on both sides optimal
transport is an assignment, which SciPy solves exactly; its time grows with nearly the cube of their number, a minute
for 10⁴. The distance of two finite samples of one distribution is far from zero: compare with the floor.
"""

import math
from collections.abc import Callable
from itertools import pairwise

import torch
from scipy.optimize import linear_sum_assignment
from scipy.stats import t as student
from torch import Tensor

from boltzkit.ensemble.energy_distance import Distance
from boltzkit.errors import UserError
from boltzkit.randomness import generator
from boltzkit.weights import LogWeights, normal_quantile

__all__ = ["USUAL", "euclidean_distance", "torus_distance"]

USUAL = 10_000
"""Samples per side that related work uses."""
_REPEATS = 3

_Cost = Callable[[Tensor, Tensor], Tensor]


def torus_distance(
    data: Tensor,
    model: Tensor,
    weights: LogWeights | None = None,
    *,
    n: int = USUAL,
    repeats: int = _REPEATS,
    floor: float | None = None,
) -> Distance:
    r"""Return W₂ between torsions, ``(samples, ...)`` radians, with the shorter way around each circle.

    $$c(\varphi, \varphi')^2 = \sum_k \left((\varphi_k - \varphi'_k + \pi) \bmod 2\pi - \pi\right)^2$$

    Args:
        data: torsions of the target's samples.
        model: torsions of the model's samples.
        weights: of the model's samples, by which they are resampled; none takes them as they are.
        n: samples per side.
        repeats: disjoint sets of data that it is averaged over; their spread gives the error.
        floor: what disjoint sets of the data give among themselves, where it is known; computed by default.
    """
    return _distance(data.flatten(1), model.flatten(1), weights, n, repeats, floor, _torus_cost)


def euclidean_distance(
    data: Tensor,
    model: Tensor,
    weights: LogWeights | None = None,
    *,
    n: int = USUAL,
    repeats: int = _REPEATS,
    floor: float | None = None,
) -> Distance:
    """Return W₂ between points, ``(samples, dimensions)``; arguments as of `torus_distance`."""
    return _distance(data, model, weights, n, repeats, floor, _euclidean_cost)


def _distance(
    data: Tensor,
    model: Tensor,
    weights: LogWeights | None,
    n: int,
    repeats: int,
    floor: float | None,
    cost: _Cost,
) -> Distance:
    if len(data) < 2 * n:
        raise UserError(
            f"A Wasserstein distance of {n:,} samples with its floor needs twice as many data, not {len(data):,}."
        )
    rows = torch.randperm(len(data), generator=generator(0, "transport"))
    sets = _sets(data[rows], n, repeats + 1)
    drawn = _drawn(model, weights, n, len(sets) - 1)
    failed, random = int((~model.isfinite().all(-1)).sum()), generator(2, "transport")
    values = torch.tensor([_exact(a, b, cost) for a, b in zip(sets, drawn, strict=False)])
    if floor is None:
        among = [_exact(a, b, cost) for a, b in pairwise(sets)]
        floor = sum(among) / len(among)
    mean, count = float(values.mean()), len(values)
    error = float(values.std()) / math.sqrt(count) if count > 1 else math.nan
    if weights is not None and count > 1:
        again = [model[_reweighed(weights, number).resample(n, random)] for number in range(count)]
        error = float(torch.tensor([_exact(a, b, cost) for a, b in zip(sets, again, strict=False)]).std())
    # A spread of a few values is itself uncertain.
    wide = weights is None and count > 1
    half = (float(student.ppf(0.975, count - 1)) if wide else normal_quantile(0.95)) * error
    return Distance(mean, error, max(mean - half, 0.0), mean + half, floor, n, failed)


def _drawn(model: Tensor, weights: LogWeights | None, n: int, sets: int) -> list[Tensor]:
    """Return sets of model samples, resampled by their weights where there are any."""
    random = generator(1, "transport")
    if weights is not None:
        return _sets(model[weights.resample(n * sets, random)], n, sets)
    sound = model[model.isfinite().all(-1)]
    if len(sound) < n:
        raise UserError(
            f"A Wasserstein distance of {n:,} samples needs as many of the model, not {len(sound):,}."
        )
    return _sets(sound[torch.randperm(len(sound), generator=random)], n, sets)


def _reweighed(weights: LogWeights, number: int) -> LogWeights:
    """Return the weights of another ensemble that might have been drawn (Rubin's Bayesian bootstrap).

    All sets come from one ensemble: where few of its samples carry the weight, the sets share them, and their spread
    alone would not tell how much another ensemble would differ.
    """
    uniform = torch.rand(weights.n, generator=generator(3, "transport", number), dtype=torch.float64).clamp(
        1e-12
    )
    return LogWeights(weights.values + torch.log(-torch.log1p(-uniform)), weights.failures)


def _sets(points: Tensor, n: int, most: int) -> list[Tensor]:
    """Return disjoint sets of n points, at most so many."""
    return [points[start : start + n] for start in range(0, len(points) // n * n, n)][:most]


def _exact(a: Tensor, b: Tensor, cost: _Cost) -> float:
    matrix = cost(a.double(), b.double()).numpy()
    row, column = linear_sum_assignment(matrix)
    return math.sqrt(max(float(matrix[row, column].mean()), 0.0))


def _euclidean_cost(a: Tensor, b: Tensor) -> Tensor:
    return torch.cdist(a, b).square()


def _torus_cost(a: Tensor, b: Tensor) -> Tensor:
    total = torch.zeros(len(a), len(b), dtype=torch.float64)
    # One torsion after the other: all differences at once would fill gigabytes.
    for one, other in zip(a.T, b.T, strict=True):
        apart = torch.remainder(one[:, None] - other + math.pi, 2 * math.pi) - math.pi
        total += apart.square_()
    return total
