"""Optimisers, and the learning rate as a pure function of the step."""

import math
from collections.abc import Iterable

import torch
from torch import nn

from boltzkit.training.config import TrainingConfig

__all__ = ["build_optimiser", "learning_rate"]


def build_optimiser(parameters: Iterable[nn.Parameter], config: TrainingConfig) -> torch.optim.Optimizer:
    """Return Adam or AdamW in torch's fused form (one pass over the weights)."""
    kind = torch.optim.Adam if config.optimiser == "adam" else torch.optim.AdamW
    return kind(
        list(parameters),
        lr=config.learning_rate,
        betas=config.betas,
        weight_decay=config.weight_decay,
        fused=True,
    )


def learning_rate(config: TrainingConfig, step: int) -> float:
    """Return the rate of one step: linear warm-up times one cosine cycle.

    A function of the step and not of a scheduler's state: resuming needs the step alone.

    >>> learning_rate(TrainingConfig(steps=10, learning_rate=1.0), 5)
    0.5
    """
    rate = config.learning_rate
    if step < config.warm_up:
        rate *= (step + 1) / config.warm_up
    if config.schedule == "cosine":
        rate *= 0.5 * (1 + math.cos(math.pi * step / config.steps))
    return rate
