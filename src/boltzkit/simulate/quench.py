"""Downhill to the nearest minima, many configurations at once."""

import torch
from torch import Tensor

from boltzkit.simulate.space import Space

__all__ = ["quench"]

_FIRST, _LONGEST, _REACH = 0.05, 0.7, 0.5
"""Time steps and the furthest move, in units of the space's scale."""
_PATIENCE, _DAMPING, _GROWTH, _FADING = 5, 0.1, 1.1, 0.99


def quench(space: Space, y: Tensor, steps: int) -> tuple[Tensor, Tensor]:
    """Let configurations ``(n, *event)`` slide downhill with inertia, and stop each when it goes up (FIRE).

    Every configuration has its own time step, which grows while it goes down (Bitzek et al., 2006). Costs one gradient
    per step and configuration. Converges in some hundred steps where one unit of scale means about the same energy in
    all coordinates, as it does for internal ones.

    Returns:
        coordinates and reduced energies of where they ended.
    """
    wide = (...,) + (None,) * len(space.event_shape)
    velocity, step = torch.zeros_like(y), torch.full((len(y),), _FIRST, dtype=y.dtype)
    damping, downhill = torch.full_like(step, _DAMPING), torch.zeros(len(y))
    here = space.evaluate(y)
    for _ in range(steps):
        force = -space.scale * here.energy_slope
        up = (force * velocity).flatten(1).sum(1) <= 0
        downhill = torch.where(up, 0, downhill + 1)
        patient = downhill > _PATIENCE
        step = torch.where(up, 0.5 * step, torch.where(patient, _GROWTH * step, step)).clamp(max=_LONGEST)
        damping = torch.where(up, _DAMPING, torch.where(patient, _FADING * damping, damping))
        turned = force * (_norm(velocity) / _norm(force).clamp(min=1e-12))[wide]
        velocity = (1 - damping[wide]) * velocity + damping[wide] * turned
        velocity = torch.where(up[wide], 0.0, velocity) + step[wide] * force
        # Clashes have forces without limit: nothing moves further than half a fluctuation.
        velocity = velocity.clamp(-_REACH / step[wide], _REACH / step[wide])
        here = space.evaluate(here.y + step[wide] * velocity * space.scale)
    return here.y, here.energy


def _norm(v: Tensor) -> Tensor:
    return v.flatten(1).square().sum(1).sqrt()
