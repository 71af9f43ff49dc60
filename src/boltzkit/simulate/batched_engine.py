"""Dynamics on the batched force field: all trajectories advance together."""

import math

import torch

from boltzkit.energy import Target
from boltzkit.energy.constants import BOLTZMANN
from boltzkit.errors import UserError
from boltzkit.molecule import Molecule
from boltzkit.randomness import generator
from boltzkit.simulate.dynamics import Advanced, DynamicsConfig, Engine, PhasePoints, exploded, masses
from boltzkit.simulate.recording import Check

__all__ = ["BatchedEngine"]


class BatchedEngine(Engine):
    r"""The middle scheme of OpenMM's LangevinMiddleIntegrator, for all trajectories at once.

    $$v \leftarrow v + \tfrac{h}{m}F(x),\quad x \leftarrow x + \tfrac h2 v,\quad
      v \leftarrow e^{-\gamma h}v + \sqrt{(1 - e^{-2\gamma h})\,k_BT/m}\;\xi,\quad x \leftarrow x + \tfrac h2 v.$$

    Forces and noise are computed in single precision, which is several times as fast, everything else in double.

    Args:
        molecule: what moves; without constraints.
        temperature: kelvin.
        config: step and friction.
        seed: of all noise.
    """

    def __init__(self, molecule: Molecule, temperature: float, config: DynamicsConfig, seed: int) -> None:
        if len(molecule.constraints):
            raise UserError(
                f"{molecule.name} has constrained bonds, which the batched engine does not hold: set "
                "dynamics.engine=openmm."
            )
        self._molecule, self._seed, self._step = molecule, seed, config.step
        self._energy: Target = molecule.energy(temperature, regularised=False)
        mass = masses(molecule)
        self._kick = -config.step * BOLTZMANN * temperature / mass
        self._keep = math.exp(-config.friction * config.step)
        self._noise = ((1 - self._keep**2) * BOLTZMANN * temperature / mass).sqrt()

    def advance(self, points: PhasePoints, segment: int, steps: int, every: int, check: Check) -> Advanced:
        """Integrate all trajectories together."""
        x, v = points.centred()
        random = generator(self._seed, "batched dynamics", segment)
        half, frames = 0.5 * self._step, x.new_empty(len(x), steps // every if every else 0, *x.shape[1:])
        for step in range(1, steps + 1):
            check()
            _, slope = self._energy.energy_and_gradient(x.float())
            v = v + self._kick * slope
            x = x + half * v
            v = self._keep * v + self._noise * torch.randn(x.shape, generator=random)
            x = x + half * v
            if every and step % every == 0:
                frames[:, step // every - 1] = x
        self.evaluations += steps * len(x)
        bad = ~(x.isfinite() & v.isfinite()).flatten(1).all(1)
        if bad.any():
            raise exploded(self._molecule.name, int(bad.int().argmax()))
        return Advanced(PhasePoints(x, v), frames)
