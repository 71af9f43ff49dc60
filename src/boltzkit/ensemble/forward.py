"""The effective sample size on samples of the target, with its error."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from boltzkit.ensemble.blocks import sum_variance
from boltzkit.weights import LogWeights, forward_ess, normal_quantile

__all__ = ["ForwardReweighting", "forward_reweighting"]


@dataclass(frozen=True)
class ForwardReweighting:
    """The forward ESS fraction, see `boltzkit.weights.forward_ess`.

    Attributes:
        fraction: the forward ESS over the target restricted to the support of q.
        standard_error: of the fraction, by the delta method over blocks of data.
        low: lower end of the 95 % interval.
        high: its upper end.
        clipped: the fraction with the largest weights clipped.
        n: samples of the target looked at.
        n_outside: samples where q has no density (log_prob = −inf), left out.
        n_failed: samples left out for any other reason.
    """

    fraction: float
    standard_error: float
    low: float
    high: float
    clipped: float
    n: int
    n_outside: int
    n_failed: int


def forward_reweighting(
    weights: LogWeights, block: Tensor, clip: float = 1e-4, confidence: float = 0.95
) -> ForwardReweighting:
    r"""Return e = 1/(⟨w⟩⟨1/w⟩) over samples of the target, with its error.

    One sample moves log e by −ψ/n,

    $$\psi_i = \frac{w_i}{\langle w\rangle} + \frac{w_i^{-1}}{\langle w^{-1}\rangle} - 2 .$$

    The interval is normal in log e. It cannot know of the rare samples with the largest w that were not met, which
    would lower e.

    Args:
        weights: log weights on samples of the target.
        block: which samples belong together, ``(n,)``.
        clip: fraction of the largest weights to clip.
        confidence: of the interval.
    """
    found = forward_ess(weights)
    inside = weights.values.isfinite()
    values, n = weights.values[inside], int(inside.sum())
    moves = n * (torch.softmax(values, 0) + torch.softmax(-values, 0)) - 2
    log_error = math.sqrt(sum_variance(moves / n, block[inside]))
    half = normal_quantile(confidence) * log_error
    return ForwardReweighting(
        found.fraction,
        found.fraction * log_error,
        found.fraction * math.exp(-half),
        min(found.fraction * math.exp(min(half, 600.0)), 1.0),
        forward_ess(weights.clipped(clip)).fraction,
        found.n,
        found.n_outside,
        found.n_failed,
    )
