"""Samples of the flow as it was, with everything that later weights need."""

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor

from boltzkit.energy import Target
from boltzkit.flow import Flow
from boltzkit.method.annealing.path import Waypoint
from boltzkit.randomness import generator
from boltzkit.ranks import spread_over_ranks
from boltzkit.weights import LogWeights

__all__ = [
    "Buffer",
    "Lesson",
    "Weighed",
    "combine",
    "draw_buffer",
    "effective",
    "furthest",
    "log_prob_of",
    "weigh",
]

_CHUNK = 4096


class Buffer(NamedTuple):
    """Samples with their energies and the log-density that drew them; those without a finite energy are not here.

    Args:
        x: ``(n, *event)``, float32.
        energy: reduced, ``(n,)``, float64.
        log_prob: log q of the flow that drew them, ``(n,)``, float64.
        drawn: how many were drawn, failed ones included.
    """

    x: Tensor
    energy: Tensor
    log_prob: Tensor
    drawn: int

    @property
    def ess_fraction(self) -> float:
        """The ESS of these samples for the target itself: what the flow was worth when it drew them."""
        return LogWeights.from_samples(self.log_prob, self.energy).ess() / self.drawn


@torch.no_grad()
def draw_buffer(flow: Flow, target: Target, n: int, seed: int, stage: int) -> Buffer:
    """Draw n samples and label them: n energy evaluations, shared out over ranks."""
    parts = []
    for chunk, start in enumerate(range(0, n, _CHUNK)):
        latent = flow.latent(min(_CHUNK, n - start), generator(seed, f"buffer {stage}", chunk))
        parts.append(spread_over_ranks(partial(_labelled, flow, target), latent))
    x, energy, log_prob = (torch.cat(part) for part in zip(*parts, strict=True))
    good = energy.isfinite() & log_prob.isfinite()
    return Buffer(x[good].float(), energy[good], log_prob[good], n)


def _labelled(flow: Flow, target: Target, latent: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    with flow.evaluating():
        x, log_prob = flow.from_latent(latent)
    return x.cpu(), target.label(x), log_prob.cpu().double()


@torch.no_grad()
def log_prob_of(flow: Flow, x: Tensor) -> Tensor:
    """Return log q of stored samples, in float64; costs no energy evaluation."""
    with flow.evaluating():
        parameter = next(flow.parameters())
        parts = [
            spread_over_ranks(lambda rows: (flow.log_prob(rows.to(parameter)).cpu().double(),), chunk)[0]
            for chunk in torch.split(x, _CHUNK)
        ]
    return torch.cat(parts)


class Lesson(NamedTuple):
    """What a stage learns from: samples with the negative log-density of its target, and importance weights.

    Args:
        x: ``(n, *event)``.
        energy: −log q' up to one constant, ``(n,)``.
        weights: with mean 1, ``(n,)``.
    """

    x: Tensor
    energy: Tensor
    weights: Tensor

    @property
    def effective(self) -> float:
        """Kish's effective number of samples."""
        return float(self.weights.sum() ** 2 / self.weights.square().sum())

    def part(self, index: Tensor | slice) -> "Lesson":
        """Return some of the samples."""
        return Lesson(*(values[index] for values in self))


class Weighed:
    """A buffer as the flow of today sees it, evaluated where that is needed: the target itself needs no flow.

    Args:
        buffer: the samples.
        current: log q of the flow as it is now, ``(n,)``, float64, or what computes it.
    """

    def __init__(self, buffer: Buffer, current: Tensor | Callable[[], Tensor]) -> None:
        self.buffer, self._current = buffer, current

    def log_density(self, waypoint: Waypoint) -> Tensor:
        """Return the log-density of an intermediate target, up to one constant."""
        if waypoint.exponent == 1:
            return waypoint.log_density(self.buffer.energy, self.buffer.log_prob)
        if not isinstance(self._current, Tensor):
            self._current = self._current()
        return waypoint.log_density(self.buffer.energy, self._current)

    def log_weight(self, waypoint: Waypoint) -> Tensor:
        """Return the log-weights to an intermediate target, up to one constant."""
        return self.log_density(waypoint) - self.buffer.log_prob


def weigh(buffers: Sequence[Buffer], flow: Flow) -> list[Weighed]:
    """Set the flow beside buffers; the newest is last and was drawn by the flow as it is now."""
    return [
        *(Weighed(old, partial(log_prob_of, flow, old.x)) for old in buffers[:-1]),
        Weighed(buffers[-1], buffers[-1].log_prob),
    ]


def effective(buffers: Sequence[Weighed], waypoint: Waypoint) -> float:
    """Return the effective number of samples that buffers have for an intermediate target, each by itself, in all."""
    shares = (torch.softmax(part.log_weight(waypoint), 0) for part in buffers if len(part.buffer.energy))
    return sum(float(1 / share.square().sum()) for share in shares)


def furthest(buffers: Sequence[Weighed], waypoint: Waypoint, enough: float) -> Waypoint:
    """Return a target with a larger exponent, if that leaves enough effective samples; by bisection in log λ."""
    low, high = math.log(waypoint.exponent), 0.0
    if effective(buffers, waypoint._replace(exponent=1.0)) >= enough:
        return waypoint._replace(exponent=1.0)
    for _ in range(20):
        middle = 0.5 * (low + high)
        if effective(buffers, waypoint._replace(exponent=math.exp(middle))) >= enough:
            low = middle
        else:
            high = middle
    return waypoint._replace(exponent=math.exp(low))


def combine(buffers: Sequence[Weighed], waypoint: Waypoint, clip: float = 0.0) -> Lesson:
    """Weigh buffers to an intermediate target.

    Each buffer's samples are weighted by the density that drew them, normalised among themselves, and the buffers
    count by their effective numbers of samples: an old one that overlaps badly counts little.

    Args:
        buffers: the samples.
        waypoint: the target.
        clip: share of each buffer's weights, the largest, that are set to the smallest of them.
    """
    parts = []
    for part in buffers:
        log_weight = part.log_weight(waypoint)
        if top := int(clip * len(log_weight)):
            log_weight = log_weight.clamp(max=torch.topk(log_weight, top).values[-1])
        share = torch.softmax(log_weight, dim=0)
        parts.append((part.buffer.x, -part.log_density(waypoint), share / share.square().sum()))
    x, energy, weights = (torch.cat(part) for part in zip(*parts, strict=True))
    return Lesson(x, energy, weights / weights.mean())
