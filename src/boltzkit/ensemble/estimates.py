"""Averages, populations and free-energy differences of weighted samples, each with its confidence interval.

All of them are ratios of weighted sums, and their errors come from the delta method: if sample i moves an
estimate by ψ_i, its variance is Σψ_i². This needs weights of finite variance and a few dozen effective
samples; the ensemble's verdict says whether they are there. Raw weights are used: clipping would bias the
estimate.
"""

import math

import torch
from torch import Tensor

from boltzkit.ensemble.blocks import summed
from boltzkit.errors import UserError
from boltzkit.weights import Estimate, LogWeights, normal_quantile

__all__ = ["log_population_ratio", "population", "weighted_mean"]

_FEWEST = 5
"""Effective samples below which a state's own weights do not tell its error."""


def weighted_mean(weights: LogWeights, values: Tensor, confidence: float = 0.95) -> Estimate:
    r"""Return ⟨f⟩ = Σ w̄_i f_i with standard error √Σ w̄_i² (f_i − ⟨f⟩)².

    Args:
        weights: of n samples.
        values: f at each sample, ``(n,)``; at weightless samples it may be anything.
        confidence: of the interval.
    """
    share, f = _carrying(weights, values)
    if not f.isfinite().all():
        count = int((~f.isfinite()).sum())
        raise UserError(
            f"The function is not finite at {count} of the {len(f)} weighted samples: define it there, or "
            "restrict it to the samples where it has a value."
        )
    mean = (share * f).sum()
    return Estimate.symmetric(float(mean), _error(share * (f - mean)), confidence)


def population(
    weights: LogWeights, inside: Tensor, confidence: float = 0.95, block: Tensor | None = None
) -> Estimate:
    r"""Return P = Σ w̄_i 1_i with Wilson's interval, which stays within [0, 1] and is never of zero width.

    Wilson's interval is that of P out of m independent samples, where m follows from the delta-method
    error, P(1 − P)/m = Σ w̄_i² (1_i − P)². With fewer than five effective samples on one side of the
    state's border that error says little about the weights there, and m is at most the effective number of
    all samples. Samples that belong together count as one.

    Args:
        weights: of n samples.
        inside: whether a sample belongs to the state, ``(n,)``, boolean.
        confidence: of the interval.
        block: which samples belong together, ``(n,)``; independent by default.
    """
    share, indicator = _carrying(weights, inside)
    sides = [share * indicator, share * (1 - indicator)]
    # Normalised weights sum to one but for rounding.
    p, rest = (float(side.sum() / share.sum()) for side in sides)
    moves, whole = share * (indicator - p), share
    if block is not None:
        own = block[weights.values.isfinite()]
        moves, whole, *sides = (summed(part, own) for part in (moves, share, *sides))
    error = _error(moves)
    # With all samples on one side there is no error, but for rounding.
    m = (p / error) * (rest / error) if min(p, rest, error) > 0 else math.inf
    if min(_effective(side) for side in sides) < _FEWEST:
        # Rounding can make one side vanish and m with it: a state is never known worse than by one sample.
        m = max(min(m, _effective(whole)), 1.0)
    z = normal_quantile(confidence)
    centre = (p + z**2 / (2 * m)) / (1 + z**2 / m)
    half = z / (1 + z**2 / m) * math.sqrt(p * rest / m + z**2 / (4 * m**2))
    # Rounding must not put the value outside its own interval.
    low, high = min(max(centre - half, 0.0), p), max(min(centre + half, 1.0), p)
    return Estimate(p, low, high, error, confidence)


def log_population_ratio(weights: LogWeights, a: Tensor, b: Tensor, confidence: float = 0.95) -> Estimate:
    r"""Return ΔF_ab = −log(P_b/P_a) in units of k_BT.

    $$\psi_i = \bar w_i \left(\frac{1_{b,i}}{P_b} - \frac{1_{a,i}}{P_a}\right)$$

    The states may overlap. Each should hold ten or more effective samples for the interval to be right.

    Args:
        weights: of n samples.
        a: whether a sample belongs to state a, ``(n,)``, boolean.
        b: the same for state b.
        confidence: of the interval.
    """
    share, in_a = _carrying(weights, a)
    in_b = _carrying(weights, b)[1]
    p_a, p_b = (share * in_a).sum(), (share * in_b).sum()
    for name, p in (("a", p_a), ("b", p_b)):
        if p == 0:
            raise UserError(
                f"State {name} is empty: none of the {len(share)} weighted samples puts weight on it, so its "
                "free energy is unknown; draw more samples or widen the state."
            )
    difference = -float(torch.log(p_b / p_a))
    return Estimate.symmetric(difference, _error(share * (in_b / p_b - in_a / p_a)), confidence)


def _carrying(weights: LogWeights, values: Tensor) -> tuple[Tensor, Tensor]:
    """Return the normalised weights and the values of the samples that carry weight."""
    if values.shape != weights.values.shape:
        raise UserError(
            f"The function must give one number per sample, shape ({weights.n},), not {tuple(values.shape)}."
        )
    carrying = weights.values.isfinite()
    return weights.normalised()[carrying], values.detach().cpu().double()[carrying]


def _error(moves: Tensor) -> float:
    return float(moves.norm())


def _effective(share: Tensor) -> float:
    """Return the effective number of samples among those with a share."""
    return LogWeights(torch.log(share), {"outside": int((share == 0).sum())}).ess()
