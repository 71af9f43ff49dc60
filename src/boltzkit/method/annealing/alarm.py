"""Signs that an annealed training goes wrong: density lost where it was learned, stages that made the flow worse."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from boltzkit.method.annealing.buffer import Lesson

__all__ = ["alarms", "lost_share", "made_worse"]

_MUCH = math.log(20)
"""Where the flow has less than a twentieth of the density that it should have, it has lost the place."""
_LOST = 0.02
_FELL = 4.0
"""An exponent that falls to less than a quarter within one stage says that the stage did harm."""
_ROSE = 0.3
"""Nats by which a validation NLL may end above its best."""


def lost_share(lesson: Lesson, log_prob: Tensor) -> float:
    """Return how much of a stage's target lies where the flow that learned it has far too little density.

    Args:
        lesson: what the flow has learned from: samples of all places that the target has, with their weights.
        log_prob: log q of the flow now, ``(n,)``; outside of its support −inf.
    """
    share = lesson.weights / lesson.weights.sum()
    missing = -lesson.energy - log_prob
    centre = _weighted_median(missing, share)
    return float(share[missing - centre > _MUCH].sum())


def made_worse(before: float, exponent: float, failed: float) -> bool:
    """Whether a stage did harm.

    Args:
        before: the exponent at which it began.
        exponent: the exponent that the flow allows now, under the same bound.
        failed: share of the flow's new samples that have no finite energy.
    """
    return failed > 0.5 or exponent < before / _FELL


def alarms(lines: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return what the metrics of an annealed run say against it, in words."""
    found = []
    lost = [line["lost_share"] for line in lines if "lost_share" in line]
    if lost and lost[-1] > _LOST:
        found.append(
            f"the flow has lost places that it knew: {100 * lost[-1]:.1f} % of the last stage's target lie where it "
            "has less than a twentieth of the density (mode collapse); raise annealing.evaluations or annealing.stages"
        )
    nll = [line["validation_nll"] for line in lines if line.get("validation_nll") is not None]
    if nll and nll[-1] > min(nll) + _ROSE:
        found.append(
            f"the validation NLL ended at {nll[-1]:.2f} and had been {min(nll):.2f}: places of the data were lost; "
            "raise annealing.evaluations or annealing.stages"
        )
    restarts = [line["restarts"] for line in lines if "restarts" in line]
    if restarts and restarts[-1]:
        found.append(
            f"{int(restarts[-1])} stages made the flow worse and were undone; lower training.learning_rate"
        )
    return found


def _weighted_median(values: Tensor, share: Tensor) -> float:
    order = torch.argsort(values)
    place = int(torch.searchsorted(share[order].cumsum(0), 0.5 * float(share.sum())))
    return float(values[order[min(place, len(values) - 1)]])
