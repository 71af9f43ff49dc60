"""The numbers that judge a flow: likelihood on data, and how well its samples reweight."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from boltzkit.ensemble.blocks import sum_variance
from boltzkit.errors import UserError
from boltzkit.weights import Estimate, LogWeights, ess_interval, log_z_error, pareto_k

__all__ = ["NegativeLogLikelihood", "Reweighting", "negative_log_likelihood", "reweighting"]


@dataclass(frozen=True)
class NegativeLogLikelihood:
    """The mean of −log q over data inside the flow's support.

    Attributes:
        value: the mean.
        standard_error: of the mean, over blocks of data that belong together; NaN for a single one.
        n: samples given.
        n_outside: samples outside the support (log_prob = −inf), left out; quote them beside the value.
        n_failed: samples left out because their log_prob is NaN or +inf.
    """

    value: float
    standard_error: float
    n: int
    n_outside: int
    n_failed: int


def negative_log_likelihood(log_prob: Tensor, block: Tensor | None = None) -> NegativeLogLikelihood:
    """Return NLL = −E_p[log q(x)] over samples x ~ p of the target.

    Args:
        log_prob: log q(x), ``(n,)``.
        block: which samples belong together, ``(n,)``; independent by default.
    """
    values = log_prob.detach().cpu().double().reshape(-1)
    inside = values[values.isfinite()]
    n_outside = int(values.isneginf().sum())
    if len(inside) == 0:
        raise UserError(
            f"The flow has no density on any of the {len(values)} samples: check that they are in the flow's "
            "coordinates and units."
        )
    block = torch.arange(len(values)) if block is None else block
    moves = (inside - inside.mean()) / len(inside)
    error = math.sqrt(sum_variance(moves, block[values.isfinite()]))
    n_failed = len(values) - len(inside) - n_outside
    return NegativeLogLikelihood(-float(inside.mean()), error, len(values), n_outside, n_failed)


@dataclass(frozen=True)
class Reweighting:
    """How well samples of the flow stand for the target.

    Attributes:
        n: samples drawn.
        n_failed: weightless samples.
        failures: how many for which reason.
        effective: effective number of samples (raw weights).
        ess: the raw ESS fraction, effective/n, with its confidence interval.
        ess_clipped: the ESS fraction with the top 10⁻⁴ of the weights clipped, as in the paper's tables, or with the
            largest weights left out, as in its table of Cartesian flows.
        ess_clipped_se: its standard error.
        largest_share: the largest normalised weight; NaN if no sample carries weight.
        pareto_k: shape of the weights' tail; −inf for equal weights, NaN for too few.
        log_z: estimate of log ∫ exp(−u); NaN if no sample carries weight.
        log_z_se: its standard error, which allows for a heavy tail (`log_z_error`).
        halves: how many standard errors log Z of the first and of the second half of the samples are apart; 0 where
            that cannot be told.
        clip: fraction of the weights that `ess_clipped` clips or leaves out.
        discard: whether it leaves them out.
    """

    n: int
    n_failed: int
    failures: Mapping[str, int]
    effective: float
    ess: Estimate
    ess_clipped: float
    ess_clipped_se: float
    largest_share: float
    pareto_k: float
    log_z: float
    log_z_se: float
    halves: float = 0.0
    clip: float = 1e-4
    discard: bool = False

    @property
    def clipping(self) -> str:
        """What `ess_clipped` does to the weights, in words."""
        return f"largest {100 * self.clip:g} % {'left out' if self.discard else 'clipped'}"

    @property
    def ess_raw(self) -> float:
        """The raw ESS fraction."""
        return self.ess.value


def reweighting(weights: LogWeights, clip: float = 1e-4, *, discard: bool = False) -> Reweighting:
    """Summarise weights; without any weighted sample the ESS is zero and the rest is NaN.

    Args:
        weights: of all samples drawn.
        clip: fraction of the largest weights to clip for `ess_clipped`.
        discard: leave these out instead.
    """
    weighted = weights.n_weighted > 0
    clipped = ess_interval(weights.discarded(clip) if discard else weights.clipped(clip))
    return Reweighting(
        n=weights.n,
        n_failed=weights.n_failed,
        failures=dict(weights.failures),
        effective=weights.ess(),
        ess=ess_interval(weights),
        ess_clipped=clipped.value,
        ess_clipped_se=clipped.standard_error,
        largest_share=weights.largest_share if weighted else math.nan,
        pareto_k=pareto_k(weights),
        log_z=weights.log_mean() if weighted else math.nan,
        log_z_se=log_z_error(weights) if weighted else math.nan,
        halves=_halves_apart(weights),
        clip=clip,
        discard=discard,
    )


def _halves_apart(weights: LogWeights) -> float:
    if weights.n < 4:
        return 0.0
    parts = [LogWeights(v, {"weightless": int(v.isneginf().sum())}) for v in weights.values.tensor_split(2)]
    if not all(part.n_weighted for part in parts):
        return 0.0
    error = math.hypot(*(part.log_mean_error() for part in parts))
    return abs(parts[0].log_mean() - parts[1].log_mean()) / error if error > 0 else 0.0
