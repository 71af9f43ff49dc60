"""Moves of many walkers at many temperatures at once, each with an exact accept step.

All tensors lead with ``(temperatures, walkers)``. β is relative to the temperature of the target's reduced energy, so
that the density at one temperature is exp(−β u(y) + log_measure(y)).
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from boltzkit.simulate.space import Evaluated, Space

__all__ = ["Moved", "hamiltonian", "swap", "turn"]


class Moved(NamedTuple):
    """Walkers after a move, and which of them took it."""

    walkers: Evaluated
    accepted: Tensor
    """``(temperatures, walkers)``; for swaps one row less, one per pair of temperatures."""


def hamiltonian(
    walkers: Evaluated,
    space: Space,
    beta: Tensor,
    step: Tensor,
    leaps: int,
    generator: torch.Generator,
    *,
    measure: float = 1.0,
) -> Moved:
    """Follow Hamilton's equations for some leapfrog steps from random velocities (Duane et al., 1987).

    Args:
        walkers: where they are.
        space: what they move in.
        beta: inverse temperatures, ``(temperatures, 1)``.
        step: step size per temperature, ``(temperatures, 1)``.
        leaps: leapfrog steps.
        generator: for velocities and acceptance.
        measure: exponent of the measure; 1 for the density of the target.
    """
    wide = (...,) + (None,) * len(space.event_shape)
    stride, weight = step[wide] * space.scale, beta[wide]
    velocity = torch.randn(walkers.y.shape, generator=generator, dtype=walkers.y.dtype).to(walkers.y.device)
    before = _hamiltonian(walkers, velocity, beta, measure)
    new = walkers
    for leap in range(leaps):
        kick = stride * (weight * new.energy_slope - measure * new.measure_slope)
        velocity = velocity - (0.5 * kick if leap == 0 else kick)
        new = space.evaluate(new.y + stride * velocity)
    velocity = velocity - 0.5 * stride * (weight * new.energy_slope - measure * new.measure_slope)
    return _accept(walkers, new, before - _hamiltonian(new, velocity, beta, measure), generator)


def turn(
    walkers: Evaluated, space: Space, beta: Tensor, index: int, widest: float, generator: torch.Generator
) -> Moved:
    """Turn every walker about the same bond, by its own angle from a uniform distribution up to ± widest."""
    draw = _uniform(walkers.energy.to(walkers.y.dtype), generator)
    new = space.evaluate(space.turn(walkers.y, index, widest * (2 * draw - 1)))
    gain = _potential(walkers, beta) - _potential(new, beta)
    return _accept(walkers, new, gain, generator)


def swap(walkers: Evaluated, beta: Tensor, odd: bool, generator: torch.Generator) -> Moved:
    """Exchange configurations between neighbouring temperatures, even pairs or odd ones.

    The measure cancels: log α = (β_k − β_{k+1})(u_k − u_{k+1}).
    """
    levels = len(beta)
    log_alpha = (beta[:-1] - beta[1:]) * (walkers.energy[:-1] - walkers.energy[1:])
    accepted = _uniform(log_alpha.double(), generator).log() < log_alpha
    accepted[(0 if odd else 1) :: 2] = False
    order = torch.arange(levels, device=accepted.device).unsqueeze(-1).repeat(1, walkers.energy.shape[1])
    order[:-1] += accepted.long()
    order[1:] -= accepted.long()
    moved = (
        torch.gather(part, 0, order.reshape(order.shape + (1,) * (part.ndim - 2)).expand_as(part))
        for part in walkers
    )
    return Moved(Evaluated(*moved), accepted)


def _potential(walkers: Evaluated, beta: Tensor, measure: float = 1.0) -> Tensor:
    return beta * walkers.energy - measure * walkers.log_measure


def _hamiltonian(walkers: Evaluated, velocity: Tensor, beta: Tensor, measure: float) -> Tensor:
    return _potential(walkers, beta, measure) + 0.5 * velocity.square().flatten(2).sum(-1)


def _accept(old: Evaluated, new: Evaluated, gain: Tensor, generator: torch.Generator) -> Moved:
    """Take the new configuration with probability min(1, e^gain); one whose energy is no number, never."""
    # In double precision: one float32 number in 2^24 is zero, which would accept anything.
    accepted = (_uniform(gain.double(), generator).log() < gain) & (gain < math.inf)
    return Moved(new.where(accepted, old), accepted)


def _uniform(like: Tensor, generator: torch.Generator) -> Tensor:
    """Draw on the CPU, so that numbers do not depend on the device they are for."""
    return torch.rand(like.shape, generator=generator, dtype=like.dtype).to(like.device)
