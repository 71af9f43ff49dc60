"""log Z from samples of both sides, the flow's and the target's: Bennett's acceptance ratio."""

import math
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from boltzkit.ensemble import Ensemble
from boltzkit.ensemble.blocks import sum_variance
from boltzkit.errors import UserError
from boltzkit.storage import finite
from boltzkit.weights import Estimate, LogWeights

__all__ = ["Bridge", "bridge"]

_STEPS = 200
"""Halvings of the bracket; sixty reach the precision of a double."""


@dataclass(frozen=True)
class Bridge:
    """log Z by Bennett's acceptance ratio.

    Attributes:
        log_z: log ∫ exp(−u) with its interval.
        overlap: from 0, the samples have nothing in common, to 1, flow and target are one.
        n_flow: samples of the flow, failed ones among them.
        n_data: samples of the target that were used.
        n_failed: samples of the flow that failed; they count as lying where the target has no density.
        n_left_out: data whose energy or density is not a number.
        n_outside: data where the flow has no density (−inf); they count.
    """

    log_z: Estimate
    overlap: float
    n_flow: int
    n_data: int
    n_failed: int
    n_left_out: int
    n_outside: int

    def missed(self, log_z: float) -> float:
        """Return the share of the target that the flow lacks, 1 − Z_flow/Z; 0 where its samples find no less.

        Args:
            log_z: from samples of the flow alone, ``ensemble.reweighting.log_z``.
        """
        return max(0.0, -math.expm1(log_z - self.log_z.value))

    def to_json(self) -> dict[str, Any]:
        """Return plain numbers."""
        plain: dict[str, Any] = finite(asdict(self))
        return plain


def bridge(
    ensemble: Ensemble,
    log_prob: Tensor,
    energy: Tensor,
    block: Tensor | None = None,
    confidence: float = 0.95,
) -> Bridge:
    r"""Return log Z of the target from samples of the flow and of the target together (Bennett, 1976).

    With f = −u − log q at n samples of the flow and m of the target, log Z = L solves

    $$\sum_\mathrm{flow} \sigma(f - L - \log\tfrac nm) = \sum_\mathrm{data} \sigma(\log\tfrac nm + L - f)$$

    where σ is the logistic function. Of all estimates from these numbers it has the least variance for many samples.
    Unlike the flow's samples alone it also counts what the flow misses (`Bridge.missed`). It costs no energy
    evaluations.

    Data must be of the Boltzmann distribution, without bias. Configurations of other labels of equivalent atoms, or of
    the other hand, lie outside a flow that models one of them only, and would count as missed.

    Args:
        ensemble: samples of the flow.
        log_prob: log q of the flow at the data, ``(m,)``: the density that drew its samples, so not with the χ₃
            correction of an augmented flow.
        energy: reduced energy at the data, ``(m,)``.
        block: which data belong together, ``(m,)``, as `trajectory_blocks` tells; independent by default.
        confidence: of the interval.
    """
    data, used, outside = _data_weights(log_prob, energy)
    flow = ensemble.weights.values
    if not len(data) or ensemble.weights.n_weighted == 0:
        raise UserError(
            f"A bridge needs samples on both sides, but {ensemble.weights.n_weighted} of the flow's and "
            f"{len(data)} of the data's {len(used)} carry weight."
        )
    if not data.isfinite().any():
        raise UserError(f"The flow has no density on any of the {len(data)} data: nothing bridges the two.")
    shift = math.log(len(flow) / len(data))
    log_z = _solve(flow, data, shift)
    up, down = torch.sigmoid(flow - log_z - shift), torch.sigmoid(shift + log_z - data)
    slope = float((up * (1 - up)).sum() + (down * (1 - down)).sum())
    own = torch.arange(len(used)) if block is None else block
    variance = sum_variance((up - up.mean()) / slope, torch.arange(len(up)))
    variance += sum_variance((down - down.mean()) / slope, own[used])
    # σ(1 − σ) is the harmonic overlap of both densities, in units of its largest value nm/(n + m).
    overlap = slope * (len(flow) + len(data)) / (len(flow) * len(data))
    return Bridge(
        Estimate.symmetric(log_z, math.sqrt(variance), confidence),
        min(overlap, 1.0),
        n_flow=len(flow),
        n_data=len(data),
        n_failed=ensemble.weights.n_failed,
        n_left_out=len(used) - len(data),
        n_outside=outside,
    )


def _data_weights(log_prob: Tensor, energy: Tensor) -> tuple[Tensor, Tensor, int]:
    """Return log weights of usable data, +inf where q is zero, which data those are, and how many have no density."""
    weights = LogWeights.from_samples(log_prob, energy)
    log_prob, energy = log_prob.detach().cpu().double(), energy.detach().cpu().double()
    outside = log_prob.isneginf() & energy.isfinite()
    used = weights.values.isfinite() | outside
    return weights.values.masked_fill(outside, math.inf)[used], used, int(outside.sum())


def _solve(flow: Tensor, data: Tensor, shift: float) -> float:
    """Halve a bracket: the left side falls with L, the right side rises."""
    both = torch.cat([flow, data])
    both = both[both.isfinite()]
    width = 50.0 + abs(shift)
    low, high = float(both.min()) - width, float(both.max()) + width
    for _ in range(_STEPS):
        middle = 0.5 * (low + high)
        left = float(torch.sigmoid(flow - middle - shift).sum())
        right = float(torch.sigmoid(shift + middle - data).sum())
        low, high = (middle, high) if left > right else (low, middle)
        if high - low < 1e-12 * max(1.0, abs(middle)):
            break
    return 0.5 * (low + high)
