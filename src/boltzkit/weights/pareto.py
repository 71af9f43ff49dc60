"""How heavy the tail of the weights is: the Pareto k̂, and smoothing by the fitted tail.

The largest weights follow a generalised Pareto distribution whose shape k says how many of their moments
exist: the mean for k < 1, the variance for k < 1/2. The fit k̂ is that of Zhang and Stephens, Technometrics
51, 316 (2009), with the prior and the smoothing of Vehtari et al., Pareto smoothed importance sampling,
JMLR 25, 72 (2024).

Everything is done in logarithms, so that weights hundreds of nats apart, as an untrained flow gives them, and
weights that agree to ten digits are fitted alike.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from boltzkit.weights.log_weights import LogWeights

__all__ = ["log_z_error", "pareto_k", "pareto_k_limit", "pareto_smoothed"]

_FEWEST = 5
"""A tail of fewer samples is not fitted."""
_EQUAL = 1e-12
"""Log weights closer than this are one number."""
_FINITE_VARIANCE = 0.5
"""The k below which the variance of the weights says how far their mean is off."""
_HEAVIEST = 0.9
"""A tail heavier than this is taken as this: near 1 no number of samples fixes the mean."""


def pareto_k(weights: LogWeights) -> float:
    """Return k̂ of the largest weights; −inf if they are all equal, NaN with too few to fit (about 20)."""
    values = weights.values[weights.values.isfinite()]
    tail = _Tail.of(values)
    return tail if isinstance(tail, float) else tail.fit().k


def pareto_k_limit(n: int) -> float:
    """Return the k̂ up to which n samples give usable averages, min(1 − 1/log₁₀ n, 0.7) (Vehtari et al.)."""
    return min(1 - 1 / math.log10(n), 0.7) if n > 1 else -math.inf


def pareto_smoothed(weights: LogWeights) -> LogWeights:
    """Replace the largest weights by the expected order statistics of the fitted tail.

    The ranking stays and no weight exceeds the largest raw one. Weights without a tail that can be fitted
    are returned as they are.
    """
    finite = weights.values.isfinite().nonzero().squeeze(1)
    tail = _Tail.of(weights.values[finite])
    if isinstance(tail, float):
        return weights
    values = weights.values.clone()
    values[finite[tail.where]] = tail.smoothed()
    return LogWeights(values, weights.failures)


def log_z_error(weights: LogWeights) -> float:
    r"""Return the standard error of log Z, one that a heavy tail does not make too small.

    Where k̂ ≤ 1/2 it is that of `LogWeights.log_mean_error`. A heavier tail has no finite variance, and what it
    contributes is seen too rarely: the mean of n weights is nearly always too low and their spread does not show it.
    There the fitted law of the tail says what its mean would be, σ/(1 − k) above the cutoff, and how well M weights fix
    that (the delta method with the covariance of the maximum-likelihood fit; Smith, 1987):

    $$\frac{\mathrm{se}(\mu)^2}{\mu^2} = \frac1M \left(r^2 - 2r + 2(1+k)\right), \quad r = \frac{1+k}{1-k},
      \quad \mu = \frac{\sigma}{1-k}.$$

    This, and the difference between μ and the mean that was seen, both times the share M/n of the tail, are added in
    squares.
    """
    plain = weights.log_mean_error()
    tail = _Tail.of(weights.values[weights.values.isfinite()])
    if isinstance(tail, float) or (fit := tail.fit()).k <= _FINITE_VARIANCE:
        return plain
    k, size = min(fit.k, _HEAVIEST), len(tail.excess)
    ratio = (1 + k) / (1 - k)
    log_mean = fit.log_scale - math.log(1 - k)
    expected, seen = math.exp(log_mean), float(tail.excess.exp().mean())
    spread = expected * math.sqrt((ratio**2 - 2 * ratio + 2 * (1 + k)) / size)
    unit = math.exp(tail.log_unit + math.log(size / weights.n) - weights.log_mean())
    return math.hypot(plain, unit * spread, unit * (expected - seen))


@dataclass(frozen=True)
class _Fit:
    k: float
    """Shape with the prior."""
    log_scale: float
    """log σ, of exceedances in units of the largest."""


@dataclass(frozen=True)
class _Tail:
    """The largest weights above a cutoff, sorted."""

    where: Tensor
    """Indices of the tail's samples, smallest weight first."""
    excess: Tensor
    """log(w − cutoff) − log(largest such), sorted, the last being 0."""
    log_unit: float
    """The logarithm of the largest w − cutoff."""
    log_cutoff: float
    log_largest: float

    @classmethod
    def of(cls, values: Tensor) -> "_Tail | float":
        """Cut off the tail of finite log weights, or say by a float what k̂ is without a fit."""
        n = len(values)
        size = math.ceil(min(0.2 * n, 3 * math.sqrt(n)))
        if size < _FEWEST or size >= n:
            return math.nan
        top = torch.topk(values, size + 1)
        cutoff, largest = float(top.values[-1]), float(top.values[0])
        if largest - cutoff <= _EQUAL:
            return -math.inf
        above = top.values - cutoff > _EQUAL
        if int(above.sum()) < _FEWEST:
            return math.nan
        sorted_values, where = top.values[above].flip(0), top.indices[above].flip(0)
        excess = sorted_values + _log_abs_expm1(cutoff - sorted_values)
        return cls(where, excess - excess[-1], float(excess[-1]), cutoff, largest)

    def fit(self) -> _Fit:
        r"""Average Zhang and Stephens' profile likelihood over their grid of θ = b, in logarithms.

        With x in units of the largest exceedance, b_j = 1 − a_j/(3 x*) for the lower quartile x*, and
        1 − b_j x = (1 − x) + (a_j/3) x/x* is a sum of two non-negative terms.
        """
        x, n = self.excess, len(self.excess)
        grid = 30 + int(math.sqrt(n))
        steps = torch.arange(1, grid + 1, dtype=torch.float64) - 0.5
        log_a = torch.log((torch.sqrt(grid / steps) - 1) / 3) - x[int(n / 4 + 0.5) - 1]
        log_terms = torch.logaddexp(_log_abs_expm1(x), log_a[:, None] + x)
        k = log_terms.mean(1)
        # b = 1 − exp(log_a) and k have opposite signs, so −b/k is positive; b = 0 exactly would be 0/0.
        profile = n * (_log_abs_expm1(log_a) - k.abs().log() - k - 1)
        posterior = torch.log_softmax(profile.nan_to_num(nan=-math.inf), 0)
        k_mean = float(torch.logsumexp(posterior[:, None] + log_terms, 0).mean())
        log_b = float(_log_abs_expm1(torch.logsumexp(posterior + log_a, 0)))
        # The prior is worth ten observations at k = 0.5.
        return _Fit((n * k_mean + 5) / (n + 10), math.log(abs(k_mean)) - log_b)

    def smoothed(self) -> Tensor:
        """Return the fitted log weights at the mid-ranks, smallest first."""
        fit, n = self.fit(), len(self.excess)
        rank = (torch.arange(n, dtype=torch.float64) + 0.5) / n
        log_excess = _log_abs_expm1(-fit.k * torch.log1p(-rank)) - math.log(abs(fit.k)) + fit.log_scale
        log_cutoff = torch.tensor(self.log_cutoff, dtype=torch.float64)
        return torch.logaddexp(log_cutoff, log_excess + self.log_unit).clamp(max=self.log_largest)


def _log_abs_expm1(t: Tensor) -> Tensor:
    """Return log|eᵗ − 1| without overflow."""
    return t.clamp(min=0) + torch.log(-torch.expm1(-t.abs()))
