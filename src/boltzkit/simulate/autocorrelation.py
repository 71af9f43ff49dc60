"""How many independent samples a set of time series is worth."""

import torch
from torch import Tensor

__all__ = ["autocorrelation_time", "effective_samples"]

_WINDOW = 5.0
"""The sum over lags ends at this many autocorrelation times (Sokal, 1997): beyond, there is noise only."""


def autocorrelation_time(series: Tensor) -> float:
    r"""Return the integrated autocorrelation time $\tau = 1 + 2\sum_{t\ge1}\rho(t)$ in frames.

    Deviations are taken from the mean over all walkers: walkers that each stay where they started give a τ as long as
    the series, instead of looking independent.

    Args:
        series: ``(walkers, frames)``.
    """
    walkers, frames = series.shape
    deviation = series.double() - series.double().mean()
    spectrum = torch.fft.rfft(deviation, n=2 * frames)
    covariance = torch.fft.irfft(spectrum.abs() ** 2)[:, :frames].mean(0)
    # The unbiased normalisation by the number of pairs at each lag.
    covariance = covariance / torch.arange(frames, 0, -1)
    if covariance[0] <= 0:
        return 1.0
    times = 2 * torch.cumsum(covariance / covariance[0], 0) - 1
    ends = torch.arange(frames) >= _WINDOW * times
    at = int(ends.int().argmax()) if bool(ends.any()) else frames - 1
    return float(times[at].clamp(min=1.0, max=float(walkers * frames)))


def effective_samples(series: Tensor) -> float:
    """Return the number of frames of all walkers divided by the autocorrelation time."""
    return series.numel() / autocorrelation_time(series)
