"""A dataset of equilibrium samples from the batched sampler, resumable by segments."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from pydantic import PositiveInt
from torch import Tensor

from boltzkit.energy import Target
from boltzkit.molecule import Molecule
from boltzkit.simulate.internal_space import InternalSpace
from boltzkit.simulate.protocol import Protocol
from boltzkit.simulate.recording import Check, Recorded, Run, Tell, record
from boltzkit.simulate.space import CartesianSpace, Space
from boltzkit.simulate.tempering import Tempering, TemperingConfig

__all__ = ["BatchedSimulation", "simulate_batched", "space_of"]


class BatchedSimulation(Protocol):
    """What to draw with the batched sampler. Every walker is one trajectory."""

    equilibration: PositiveInt = 1000
    """Sweeps before the first sample, in which step sizes are adapted."""
    every: PositiveInt = 1
    """Sweeps from one stored frame to the next."""
    segment: PositiveInt = 100
    """Frames of each walker that are stored at a time."""
    tempering: TemperingConfig = TemperingConfig()
    """How walkers move."""

    @property
    def run_seed(self) -> int:
        """The seed of the walkers."""
        return self.tempering.seed

    @property
    def title(self) -> str:
        """How manifests call it."""
        return "batched sampler"


def simulate_batched(molecule: Molecule, config: BatchedSimulation, out: Path, tell: Tell = print) -> None:
    """Draw samples into a dataset folder; goes on where it stopped.

    Walkers move in Cartesian coordinates, or in internal ones where bonds are constrained.
    """
    record(molecule, config, _BatchedRun(molecule, config), out, tell)


def space_of(molecule: Molecule, energy: Target) -> Space:
    """Return what walkers move in: Cartesian coordinates, or internal ones where bonds are constrained."""
    if len(molecule.constraints):
        return InternalSpace(molecule.internal_coordinates(), energy)
    return CartesianSpace(molecule, energy)


class _BatchedRun(Run):
    """Walkers of the batched sampler, recorded at the target's temperature."""

    def __init__(self, molecule: Molecule, config: BatchedSimulation) -> None:
        self._config, self._reference = config, molecule.positions.float()[None]
        self._energy: Target = molecule.energy(config.temperature)
        self._space = space_of(molecule, self._energy)
        self.trajectories = config.tempering.walkers
        self.segments = -(-config.samples // (config.segment * self.trajectories))
        self.folders = {config.temperature: ""}
        self._walkers: Tempering

    def start(self, tell: Tell, check: Check) -> None:
        tell(f"equilibrating {self.trajectories} walkers for {self._config.equilibration} sweeps")
        self._walkers = Tempering.start(self._space, self._config.tempering, self._reference)
        for _ in self._walkers.run(self._config.equilibration, adapt=True):
            check()

    def advance(self, segment: int, check: Check) -> Mapping[float, Recorded]:
        frames = []
        for sweep in self._walkers.run(self._config.segment * self._config.every):
            check()
            if sweep.number % self._config.every == 0:
                frames.append(self._space.positions(sweep.y))
        recorded = Recorded(torch.stack(frames, dim=1), 0, segment * self._config.segment)
        return {self._config.temperature: recorded}

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        run = self._walkers
        return {"y": run.walkers.y, "step": run.step}, {"sweeps": run.sweeps, "evaluations": self.evaluations}

    def restore(self, tensors: dict[str, Tensor], numbers: dict[str, Any]) -> None:
        walkers, step = self._space.evaluate(tensors["y"]), tensors["step"]
        self._walkers = Tempering(self._space, self._config.tempering, walkers, step, numbers["sweeps"])
        # To go on costs one evaluation per walker that an uninterrupted run does not have.
        self._energy.evaluations = numbers.get("evaluations", 0)

    @property
    def evaluations(self) -> int:
        """Energies computed so far, each with its gradient or without."""
        return self._energy.evaluations

    def report(self) -> str:
        rates = (f"{kind} {float(rate[0]):.0%}" for kind, rate in self._walkers.accepted.items())
        return f"{self.evaluations:,} energy evaluations, accepted: {', '.join(rates)}"
