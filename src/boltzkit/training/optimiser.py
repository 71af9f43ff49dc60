"""Optimisers, and the learning rate as a pure function of the step."""

import math

import torch
from torch import nn

from boltzkit.errors import UserError
from boltzkit.flow import hidden_weights
from boltzkit.training.config import TrainingConfig
from boltzkit.training.muon import Muon

__all__ = ["build_optimiser", "learning_rate"]


def build_optimiser(modules: nn.Module, config: TrainingConfig) -> torch.optim.Optimizer:
    """Return Adam or AdamW in torch's fused form (one pass over the weights), or Muon."""
    parameters = list(modules.parameters())
    if config.optimiser == "muon":
        matrices = hidden_weights(modules)
        if not matrices:
            raise UserError(
                "This flow has no plain matrices for muon to move: set training.optimiser to adam."
            )
        return Muon(parameters, matrices, config.learning_rate, config.betas, config.weight_decay)
    kind = torch.optim.Adam if config.optimiser == "adam" else torch.optim.AdamW
    return kind(
        parameters,
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
