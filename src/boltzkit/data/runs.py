"""Sets of integers as runs (first, last), both included: short for numbers that follow each other."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

__all__ = ["Runs", "count", "overlap", "to_runs"]

Runs = tuple[tuple[int, int], ...]


def to_runs(numbers: ArrayLike) -> Runs:
    """Return the distinct numbers as runs in ascending order.

    >>> to_runs([3, 1, 2, 7, 2])
    ((1, 3), (7, 7))
    """
    distinct = np.unique(np.asarray(numbers, dtype=np.int64))
    ends = np.flatnonzero(np.diff(distinct) > 1)
    firsts = distinct[np.concatenate([[0], ends + 1])] if len(distinct) else distinct
    lasts = distinct[np.concatenate([ends, [-1]])] if len(distinct) else distinct
    return tuple(zip(firsts.tolist(), lasts.tolist(), strict=True))


def count(runs: Runs) -> int:
    """Return how many numbers the runs hold.

    >>> count(((1, 3), (7, 7)))
    4
    """
    return sum(last - first + 1 for first, last in runs)


def overlap(a: Sequence[tuple[int, int]], b: Sequence[tuple[int, int]]) -> int | None:
    """Return the smallest number that both hold, None when there is none; each in ascending order.

    >>> overlap(((1, 3), (7, 9)), ((4, 8),))
    7
    """
    i = j = 0
    while i < len(a) and j < len(b):
        first, last = max(a[i][0], b[j][0]), min(a[i][1], b[j][1])
        if first <= last:
            return first
        if a[i][1] < b[j][1]:
            i += 1
        else:
            j += 1
    return None
