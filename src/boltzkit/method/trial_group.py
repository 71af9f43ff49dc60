"""Settings of a tuning that train at a time, and what they score."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from boltzkit.errors import TrainingFailed
from boltzkit.method.config import RunConfig
from boltzkit.method.fit import fit_side_by_side
from boltzkit.method.model import Model
from boltzkit.method.trial import Trial
from boltzkit.method.validation import Validation
from boltzkit.training import Watch

__all__ = ["TrialGroup", "run_group", "trial_groups", "with_setting"]


@dataclass(frozen=True)
class TrialGroup:
    """What trains at a time.

    Attributes:
        name: of its folder.
        rate: the learning rate.
        weights: the λ_data to try.
        steps: of each run.
    """

    name: str
    rate: float
    weights: list[float]
    steps: int

    @property
    def words(self) -> str:
        """What it tries."""
        shown = ", ".join(f"{weight:g}" for weight in self.weights)
        return f"learning rate {self.rate:g}, λ_data {shown}, {self.steps} steps"


def trial_groups(
    config: RunConfig, rung: int, steps: int, settings: Sequence[tuple[float, float]]
) -> list[TrialGroup]:
    """Return what trains at a time: all weights of a learning rate, or single ones where flows go one by one.

    Args:
        config: the run.
        rung: its number, from 0.
        steps: of each run at this rung.
        settings: learning rates and λ_data.
    """
    groups = []
    for rate in sorted({rate for rate, _ in settings}):
        name = f"rung-{rung + 1}-rate-{rate:g}"
        weights = [weight for r, weight in settings if r == rate]
        if config.has_replicas:
            groups.append(TrialGroup(name, rate, weights, steps))
        else:
            groups += [TrialGroup(f"{name}-weight-{weight:g}", rate, [weight], steps) for weight in weights]
    return groups


def run_group(
    config: RunConfig, seeds: Sequence[int], group: TrialGroup, folder: Path, watch: Watch | None
) -> list[Trial]:
    """Train a group with every seed and return a trial for each weight; where the training fails, all have failed."""
    short = _shortened(config, group.steps)
    runs = [
        with_setting(short, group.rate, weight).model_copy(update={"seed": seed})
        for weight in group.weights
        for seed in seeds
    ]
    try:
        models = fit_side_by_side(runs, folder, watch)
    except TrainingFailed:
        return [Trial(group.rate, weight, group.steps, math.inf) for weight in group.weights]
    scores = [_validation_nll(model) for model in models]
    per_weight = [scores[i : i + len(seeds)] for i in range(0, len(scores), len(seeds))]
    means = [sum(part) / len(part) for part in per_weight]
    return [
        Trial(group.rate, weight, group.steps, mean if math.isfinite(mean) else math.inf)
        for weight, mean in zip(group.weights, means, strict=True)
    ]


def with_setting(config: RunConfig, rate: float, weight: float) -> RunConfig:
    """Return the configuration with a learning rate and λ_data."""
    training = config.training.model_copy(update={"learning_rate": rate})
    objective = config.objective.model_copy(update={"data_weight": weight})
    return config.model_copy(update={"training": training, "objective": objective})


def _shortened(config: RunConfig, steps: int) -> RunConfig:
    """Return a run of fewer steps whose warm-ups shrink in proportion."""
    share = steps / config.training.steps
    warm_up = round(share * config.training.warm_up)
    training = config.training.model_copy(update={"steps": steps, "warm_up": warm_up})
    objective = config.objective.model_copy(update={"warm_up": round(share * config.objective.warm_up)})
    return config.model_copy(update={"training": training, "objective": objective})


def _validation_nll(model: Model) -> float:
    validation = Validation.of((model.config,), model.target, batched=False)
    assert validation is not None, "looked at before the first training"
    return float(validation(model.flow)["validation_nll"])
