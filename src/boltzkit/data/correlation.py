"""How many independent samples time series are worth."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

__all__ = ["statistical_inefficiency"]

_WINDOW = 5.0
"""The sum over lags ends at this many autocorrelation times (Sokal, 1997): beyond, there is noise only."""


def statistical_inefficiency(series: Sequence[NDArray[np.float64]]) -> float:
    """Return g = 1 + 2 Σ ρ(t), by which correlation along time divides the number of samples.

    Deviations are taken from the mean over all series: trajectories that each stay where they started give a g as large
    as they are long, instead of looking independent. A constant has g = 1.

    Args:
        series: one for each trajectory, ``(frames,)``, of any lengths.
    """
    rows = [row for row in series if len(row)]
    if not rows:
        return 1.0
    longest, mean = max(map(len, rows)), float(np.concatenate(rows).mean())
    products, pairs = np.zeros(longest), np.zeros(longest)
    for row in rows:
        n = len(row)
        products[:n] += np.fft.irfft(np.abs(np.fft.rfft(row - mean, 2 * n)) ** 2, 2 * n)[:n]
        pairs[:n] += np.arange(n, 0, -1)
    covariance = products / pairs
    if covariance[0] <= 1e-24:
        return 1.0
    times = 2 * np.cumsum(covariance / covariance[0]) - 1
    ends = np.flatnonzero(np.arange(longest) >= _WINDOW * times)
    return float(np.clip(times[ends[0] if len(ends) else -1], 1.0, sum(map(len, rows))))
