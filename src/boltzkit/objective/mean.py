"""Weighted means over the batch axis, with a hook for batches spread over several processes."""

from collections.abc import Callable

import torch
from torch import Tensor

from boltzkit.ranks import gather_ranks, share, sum_over_ranks

__all__ = ["Order", "Total", "global_order", "global_total", "local_order", "local_total", "weighted_mean"]

Total = Callable[[Tensor], Tensor]
"""Sums over the last axis, and over all processes that hold a part of the batch; must be differentiable."""


def local_total(values: Tensor) -> Tensor:
    """Sum over the last axis: the whole batch is here."""
    return values.sum(-1)


def global_total(values: Tensor) -> Tensor:
    """Sum over the last axis and over all ranks, each of which has its share of the batch."""
    return sum_over_ranks(values.sum(-1))


Order = Callable[[Tensor], Tensor]
"""Gives each value its place in ascending order, from 0, among the whole batch."""


def local_order(values: Tensor) -> Tensor:
    """Return places along the last axis: the whole batch is here."""
    return values.argsort(dim=-1).argsort(dim=-1)


def global_order(values: Tensor) -> Tensor:
    """Return places among the values of all ranks."""
    places = local_order(gather_ranks(values, axis=-1))
    own = share(places.shape[-1])
    return places[..., own]


def weighted_mean(
    values: Tensor, weights: Tensor | None = None, *, keep: Tensor, total: Total = local_total
) -> Tensor:
    r"""Return $\sum_i w_i v_i / \sum_i w_i$ over the samples to keep, ``(..., batch) -> (...)``.

    A sample that is not kept contributes neither value nor gradient, whatever it holds (even NaN). With nothing
    to keep the result is NaN, which the training loop counts as a failed step.

    Args:
        values: what to average.
        weights: non-negative importance weights, any scale; equal when None.
        keep: which samples take part.
        total: how to sum over the batch; replace it to sum over processes too.
    """
    mass = keep.to(values.dtype) if weights is None else torch.where(keep, weights.to(values.dtype), 0.0)
    return total(torch.where(keep, values, 0.0) * mass) / total(mass)
