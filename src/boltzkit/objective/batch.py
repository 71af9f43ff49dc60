"""What an objective is evaluated on."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import Tensor

from boltzkit.energy.target import Target
from boltzkit.flow import Flow

__all__ = ["Batch", "draw_batch"]


@dataclass(frozen=True)
class Batch:
    """Configurations with their labels; leading axes before the batch are replicas.

    Args:
        x: configurations, ``(*replicas, batch, *event)``.
        energy: reduced u(x), ``(*replicas, batch)``.
        gradient: ∂u/∂x, same shape as x, where an objective needs it.
        weights: importance weights, same shape as energy.
        log_prob: log q(x) when it is known already, as for samples of the flow itself.
    """

    x: Tensor
    energy: Tensor
    gradient: Tensor | None = None
    weights: Tensor | None = None
    log_prob: Tensor | None = None

    def replace(self, **changes: Any) -> Self:
        """Return a copy with some fields changed."""
        return dataclasses.replace(self, **changes)

    def with_log_prob(self, flow: Flow) -> Self:
        """Return the batch with log q of every configuration, computed unless it is there."""
        return self if self.log_prob is not None else self.replace(log_prob=flow.log_prob(self.x))


def draw_batch(
    flow: Flow, target: Target, n: int, generator: torch.Generator | Sequence[torch.Generator]
) -> Batch:
    """Draw n samples of the flow and label them, differentiable throughout; costs n evaluations per replica."""
    x, log_prob = flow.sample(n, generator)
    seen = x.view_as(x)
    energy = target(seen)
    failed = ~torch.isfinite(energy.detach())
    if seen.requires_grad:
        # Objectives leave failed samples out, but autograd multiplies their zero by ∂u/∂x, and 0 · inf is NaN.
        mask = failed.reshape(*failed.shape, *[1] * len(target.event_shape))
        seen.register_hook(lambda gradient: gradient.masked_fill(mask, 0.0))  # type: ignore[no-untyped-call]
    return Batch(x, energy, log_prob=log_prob)
