"""Parallel tempering of thousands of walkers on a batched energy: exact, and fast enough for ground truth."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from pydantic import Field, PositiveFloat, PositiveInt
from torch import Tensor

from boltzkit.config import Config
from boltzkit.randomness import generator
from boltzkit.simulate.moves import hamiltonian, swap, turn
from boltzkit.simulate.space import Evaluated, Space

__all__ = ["Sweep", "Tempering", "TemperingConfig"]

_GOAL = 0.8
"""Acceptance of Hamiltonian moves that step sizes are adapted to."""


class TemperingConfig(Config):
    """How walkers move."""

    walkers: PositiveInt = 512
    """Independent walkers per temperature."""
    hottest: PositiveFloat = 1.0
    """Highest temperature as a multiple of the target's."""
    temperatures: PositiveInt = 1
    """Temperatures from the target's to the highest, geometric."""
    leaps: PositiveInt = 6
    """Leapfrog steps of a Hamiltonian move, on average."""
    step: PositiveFloat = 0.003
    """First step size; adapted to an acceptance of 0.8 while equilibrating; of molecules in Cartesian
    coordinates in nm·√Da, which is 1.6 times the time step in ps at 300 K."""
    turns: int = Field(8, ge=0)
    """Turns about bonds per sweep, each about a bond drawn at random."""
    seed: int = 0
    """Of all draws."""


class Sweep(NamedTuple):
    """What one sweep gives: the walkers at the target's temperature."""

    number: int
    y: Tensor
    energy: Tensor


@dataclass
class Tempering:
    """Walkers at all temperatures, moved sweep by sweep.

    A sweep is one Hamiltonian move, some turns about bonds, and swaps between neighbouring temperatures. Every draw is
    a function of the seed and the number of the sweep, so that walkers, step sizes and that number are the whole state.

    Args:
        space: what the walkers move in.
        config: how.
        walkers: where they are, ``(temperatures, walkers)``.
        step: Hamiltonian step sizes, ``(temperatures, 1)``.
        sweeps: sweeps done.
    """

    space: Space
    config: TemperingConfig
    walkers: Evaluated
    step: Tensor
    sweeps: int = 0
    accepted: dict[str, Tensor] = field(default_factory=dict)
    """Acceptance of each kind of move in the last sweep, by temperature."""

    @classmethod
    def start(cls, space: Space, config: TemperingConfig, x: Tensor) -> "Tempering":
        """Place walkers on configurations ``(n, *event)``, one after the other."""
        index = torch.arange(config.temperatures * config.walkers) % len(x)
        y = space.coordinates(x[index]).reshape(config.temperatures, config.walkers, *space.event_shape)
        step = torch.full((config.temperatures, 1), config.step, dtype=y.dtype)
        return cls(space, config, space.evaluate(y), step)

    @property
    def beta(self) -> Tensor:
        """Inverse temperatures relative to the target's, ``(temperatures, 1)``, falling."""
        levels = self.config.temperatures
        rung = torch.arange(levels, dtype=self.step.dtype) / max(levels - 1, 1)
        return torch.exp(-rung * math.log(self.config.hottest)).unsqueeze(-1)

    def run(self, sweeps: int, adapt: bool = False) -> Iterator[Sweep]:
        """Move the walkers; with ``adapt``, let step sizes follow the acceptance (such sweeps are no samples)."""
        for _ in range(sweeps):
            self._sweep(adapt)
            yield Sweep(self.sweeps, self.walkers.y[0], self.walkers.energy[0])

    def _sweep(self, adapt: bool) -> None:
        random = generator(self.config.seed, "tempering", self.sweeps)
        # The length varies, so that no vibration comes back to where it was.
        low, high = max(1, self.config.leaps // 2), self.config.leaps + self.config.leaps // 2
        leaps = int(torch.randint(low, high + 1, (), generator=random))
        self.walkers, accepted = hamiltonian(self.walkers, self.space, self.beta, self.step, leaps, random)
        before = self.accepted.get("swap", torch.zeros(self.config.temperatures - 1, dtype=torch.float64))
        self.accepted = {"hamiltonian": accepted.double().mean(-1)}
        if adapt:
            off = accepted.to(self.step.dtype).mean(-1, keepdim=True) - _GOAL
            self.step = self.step * torch.exp(0.2 * off)
        if self.space.turns and self.config.turns:
            self.accepted["turn"] = self._turns(random)
        if self.config.temperatures > 1:
            odd = self.sweeps % 2
            self.walkers, accepted = swap(self.walkers, self.beta, odd == 1, random)
            # Pairs that were not tried in this sweep were in the last.
            tried = torch.arange(self.config.temperatures - 1) % 2 == odd
            self.accepted["swap"] = torch.where(tried, accepted.double().mean(-1), before)
        self.sweeps += 1

    def _turns(self, random: torch.Generator) -> Tensor:
        """Turn about bonds drawn at random, half of the time by small angles."""
        rates = []
        for _ in range(self.config.turns):
            index = int(torch.randint(self.space.turns, (), generator=random))
            widest = math.pi if bool(torch.rand((), generator=random) < 0.5) else 0.5
            self.walkers, accepted = turn(self.walkers, self.space, self.beta, index, widest, random)
            rates.append(accepted.double().mean(-1))
        return torch.stack(rates).mean(0)
