"""What an objective is evaluated on."""

import dataclasses
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import Tensor

from boltzkit.energy.target import Target
from boltzkit.flow import Flow, Samples
from boltzkit.ranks import add_over_ranks

__all__ = ["Batch", "ModelBatch", "counted", "draw_batch"]


@dataclass(frozen=True)
class Batch:
    """Configurations with their labels; leading axes before the batch are replicas.

    Args:
        x: configurations, ``(*replicas, batch, *event)``.
        energy: reduced u(x), ``(*replicas, batch)``.
        gradient: ∂u/∂x, same shape as x, where an objective needs it.
        weights: importance weights, same shape as energy.
        log_prob: log q(x) when it is known already, as for samples of the flow itself.
        path: what path gradients are the gradient of, per sample, when it is known already.
    """

    x: Tensor
    energy: Tensor
    gradient: Tensor | None = None
    weights: Tensor | None = None
    log_prob: Tensor | None = None
    path: Tensor | None = None

    @property
    def size(self) -> int:
        """Samples per replica."""
        return self.energy.shape[-1]

    def part(self, rows: slice) -> Self:
        """Return some of the samples, the same of every replica."""
        axis = self.energy.ndim - 1
        named = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return self.replace(
            **{
                name: value[(slice(None),) * axis + (rows,)]
                for name, value in named.items()
                if value is not None
            }
        )

    def replace(self, **changes: Any) -> Self:
        """Return a copy with some fields changed."""
        return dataclasses.replace(self, **changes)

    def with_log_prob(self, flow: Flow) -> Self:
        """Return the batch with log q of every configuration, computed unless it is there."""
        return self if self.log_prob is not None else self.replace(log_prob=flow.log_prob(self.x))


@dataclass(frozen=True)
class ModelBatch:
    """Samples that a step has yet to draw from the flow in training, and to evaluate.

    Args:
        latent: what they come from, ``(*replicas, batch, dim)``.
        target: the energy.
    """

    latent: Tensor
    target: Target

    @property
    def size(self) -> int:
        """Samples per replica."""
        return self.latent.shape[-2]

    def part(self, rows: slice) -> Self:
        """Return some of the samples, the same of every replica."""
        return dataclasses.replace(self, latent=self.latent[..., rows, :])

    def drawn(self, flow: Flow) -> Batch:
        """Draw and label them, differentiable throughout; costs an evaluation each."""
        return _labelled(flow.from_latent(self.latent), self.target)


@contextmanager
def counted(target: Target) -> Iterator[None]:
    """Count the energy evaluations that all ranks make meanwhile, each its share, as one number."""
    before = target.evaluations
    yield
    target.evaluations = before + add_over_ranks(target.evaluations - before)


def draw_batch(
    flow: Flow, target: Target, n: int, generator: torch.Generator | Sequence[torch.Generator]
) -> Batch:
    """Draw n samples of the flow and label them, differentiable throughout; costs n evaluations per replica."""
    return _labelled(flow.sample(n, generator), target)


def _labelled(samples: Samples, target: Target) -> Batch:
    x, log_prob = samples
    seen = x.view_as(x)
    energy = target(seen)
    failed = ~torch.isfinite(energy.detach())
    if seen.requires_grad:
        # Objectives leave failed samples out, but autograd multiplies their zero by ∂u/∂x, and 0 · inf is NaN.
        mask = failed.reshape(*failed.shape, *[1] * len(target.event_shape))
        seen.register_hook(lambda gradient: gradient.masked_fill(mask, 0.0))  # type: ignore[no-untyped-call]
    return Batch(x, energy, log_prob=log_prob)
