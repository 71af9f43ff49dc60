"""One setting of a tuning and its score, in memory and as JSON holds it."""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from boltzkit.storage import finite

__all__ = ["Trial", "stored_trial", "trial_of"]


@dataclass(frozen=True)
class Trial:
    """One setting tried at one rung. The score is the mean validation NLL over seeds; inf when a run failed."""

    learning_rate: float
    data_weight: float
    steps: int
    score: float


def stored_trial(trial: Trial) -> dict[str, Any]:
    """Return what JSON holds of a trial: infinity is null there."""
    content: dict[str, Any] = finite(asdict(trial))
    return content


def trial_of(stored: Mapping[str, Any]) -> Trial:
    """Return the trial that `stored_trial` made this of."""
    return Trial(**{**stored, "score": math.inf if stored["score"] is None else stored["score"]})
