"""What a dataset is good for: the data term of an objective, or only the reference of its log-dispersion."""

import math
from dataclasses import dataclass

from boltzkit.data.dataset import Dataset
from boltzkit.data.frame_weights import FrameWeights, frame_log_weights

__all__ = ["Assignment", "assign"]

_HEAVY = 0.7
"""k̂ above which weighted averages mean nothing at any number of samples (Vehtari et al., 2024)."""
_FEWEST = 100
"""Effective frames below which a flow would learn a handful of configurations."""


@dataclass(frozen=True, eq=False)
class Assignment:
    """Where the frames of a dataset go, and why.

    Attributes:
        data_term: whether they may stand for the Boltzmann distribution, by their weights.
        reference: whether the log-dispersion may be taken over them: wherever there are frames with energies, since it
            asks for no distribution in particular.
        reason: why, with the numbers.
        weights: of the frames.
    """

    data_term: bool
    reference: bool
    reason: str
    weights: FrameWeights


def assign(dataset: Dataset, temperature: float | None = None) -> Assignment:
    """Decide what the frames of a dataset, usually one split, are good for; costs no energy evaluation.

    The data term takes frames whose weights are known and fair: a Pareto k̂ below 0.7 and a hundred effective frames,
    correlation along time counted.
    All others still carry energies, and go to the reference of the log-dispersion alone.

    Args:
        dataset: the samples.
        temperature: of the target in kelvin; the dataset's own by default.
    """
    weights = frame_log_weights(dataset, temperature)
    if not len(dataset):
        return Assignment(False, False, "There are no frames.", weights)
    if not weights.known:
        reason = f"Only the reference of the log-dispersion: frames have no weights, since {weights.how}."
        return Assignment(False, True, reason, weights)
    flaw = _flaw(weights)
    numbers = _numbers(weights, len(dataset))
    if flaw is not None:
        reason = f"Only the reference of the log-dispersion: {flaw} ({weights.how}; {numbers})."
        return Assignment(False, True, reason, weights)
    reason = f"Data term and reference: {weights.how}; {numbers}."
    return Assignment(True, True, reason, weights)


def _flaw(weights: FrameWeights) -> str | None:
    """Return what is wrong with the weights, if anything."""
    k = weights.pareto_k
    assert k is not None
    if weights.effective < _FEWEST:
        return f"the frames are worth {weights.effective:.3g} independent ones, and {_FEWEST} are needed"
    if math.isnan(k) or k >= _HEAVY:
        return f"the tail of the weights is too heavy, k̂ = {k:.2f} where {_HEAVY} is the limit"
    return None


def _numbers(weights: FrameWeights, n: int) -> str:
    if weights.pareto_k == -math.inf:
        return f"{n:,} frames of equal weight"
    share = 100 * (weights.ess_fraction or 0.0)
    return (
        f"{weights.effective:,.0f} effective of {n:,} frames, from an ESS of {share:.3g} % and a statistical "
        f"inefficiency of {weights.inefficiency:.3g} along time; k̂ = {weights.pareto_k:.2f}"
    )
