"""How many independent samples a set of time series is worth."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

__all__ = ["autocorrelation_time", "effective_samples"]

_WINDOW = 5.0
"""The sum over lags ends at this many autocorrelation times (Sokal, 1997): beyond, there is noise only."""
_ROUNDING = 1e-24
"""A variance below this, relative to the squared mean, is that of a constant."""

Series = Tensor | Sequence[NDArray[np.float64]]


def autocorrelation_time(series: Series) -> float:
    r"""Return the integrated autocorrelation time $\tau = 1 + 2\sum_{t\ge1}\rho(t)$ in frames.

    It is also called the statistical inefficiency g, by which correlation along time divides the number of samples.
    Deviations are taken from the mean over all series: walkers that each stay where they started give a τ as long as
    the series, instead of looking independent. Constants, and nothing at all, have τ = 1.

    Args:
        series: ``(walkers, frames)``, or one array ``(frames,)`` for each trajectory, of any lengths.
    """
    rows = [row for row in _arrays(series) if len(row)]
    if not rows:
        return 1.0
    longest, mean = max(map(len, rows)), float(np.concatenate(rows).mean())
    products, pairs = np.zeros(longest), np.zeros(longest)
    for row in rows:
        n = len(row)
        products[:n] += np.fft.irfft(np.abs(np.fft.rfft(row - mean, 2 * n)) ** 2, 2 * n)[:n]
        pairs[:n] += np.arange(n, 0, -1)
    # The unbiased normalisation by the number of pairs at each lag.
    covariance = products / pairs
    if covariance[0] <= _ROUNDING * (1 + mean**2):
        return 1.0
    times = 2 * np.cumsum(covariance / covariance[0]) - 1
    ends = np.flatnonzero(np.arange(longest) >= _WINDOW * times)
    return float(np.clip(times[ends[0] if len(ends) else -1], 1.0, sum(map(len, rows))))


def effective_samples(series: Series) -> float:
    """Return the number of frames of all series divided by the autocorrelation time."""
    return sum(map(len, _arrays(series))) / autocorrelation_time(series)


def _arrays(series: Series) -> Sequence[NDArray[np.float64]]:
    return list(series.double().numpy()) if isinstance(series, Tensor) else series
