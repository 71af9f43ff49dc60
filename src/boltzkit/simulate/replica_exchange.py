"""Replica-exchange molecular dynamics by OpenMM: temperatures side by side that swap configurations."""

import math
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import torch
from pydantic import NonNegativeFloat, PositiveFloat, PositiveInt, model_validator
from torch import Tensor

from boltzkit.errors import UserError
from boltzkit.molecule import Molecule
from boltzkit.simulate.dynamics import DynamicsConfig, PhasePoints, thermal_velocities
from boltzkit.simulate.ladder import Ladder
from boltzkit.simulate.molecular_dynamics import Stage, Timeline
from boltzkit.simulate.openmm_engine import explosions_explained, settled_platform
from boltzkit.simulate.recording import Check, Recorded, Run, Tell, record

__all__ = ["ReplicaExchangeSimulation", "simulate_replica_exchange"]

_SIX = (300.0, 332.27, 368.01, 407.60, 451.44, 500.0)
"""The temperatures of the paper, geometric."""


class ReplicaExchangeSimulation(Timeline):
    """One replica per temperature; neighbours in energy exchange temperatures."""

    temperatures: tuple[PositiveFloat, ...] = _SIX
    """Of the replicas, K; the target's temperature is one of them."""
    exchange: PositiveInt | None = None
    """Time steps from one exchange to the next: as many as between stored frames by default, which must be a multiple
    of it."""
    mixing: NonNegativeFloat = 100.0
    """Time with exchanges, after the equilibration without, before the first sample, ps."""
    store: tuple[PositiveFloat, ...] = ()
    """Further temperatures whose samples are kept, each in a dataset of its own below the folder."""

    @property
    def title(self) -> str:
        """How manifests call it."""
        return "replica-exchange molecular dynamics"

    @property
    def frame_interval(self) -> float | None:
        """None: what is stored at one temperature is not one trajectory in time."""
        return None

    @property
    def waiting(self) -> float:
        """Time before the first stored frame, ps."""
        return self.equilibration + self.mixing

    @property
    def interval(self) -> int:
        """Time steps from one exchange to the next."""
        return self.exchange or self.every

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if len(set(self.temperatures)) < max(2, len(self.temperatures)):
            raise UserError("Replica exchange needs two different temperatures at least: set temperatures.")
        strangers = {self.temperature, *self.store} - set(self.temperatures)
        if strangers:
            raise UserError(
                f"temperature and store must be among temperatures, but {min(strangers):g} K is not."
            )
        if self.dynamics.engine == "batched":
            raise UserError(
                "Replica exchange runs in OpenMM, not on the batched engine; for tempering on the batched force field "
                "take the batched protocol with tempering.temperatures."
            )
        if self.every % self.interval:
            raise UserError(
                f"every = {self.every} must be a multiple of exchange = {self.interval}: frames are stored just before "
                "exchanges."
            )
        return self


def simulate_replica_exchange(
    molecule: Molecule, config: ReplicaExchangeSimulation, out: Path, tell: Tell = print
) -> None:
    """Simulate into a dataset folder, the replica at the target's temperature alone; goes on where it stopped."""
    record(molecule, config, _LadderRun(molecule, config), out, tell)


class _LadderRun(Run):
    """All replicas, recorded by temperature: a trajectory is what is seen at one temperature."""

    def __init__(self, molecule: Molecule, config: ReplicaExchangeSimulation) -> None:
        self._molecule, self._config = molecule, config
        self.trajectories, self.segments = config.pieces, config.segments(1)
        others = [t for t in config.store if t != config.temperature]
        self.folders = {config.temperature: "", **{t: f"at-{t:g}K" for t in others}}
        self._points: PhasePoints
        self._dynamics: DynamicsConfig
        self._evaluations, self._attempts, self._exchanges = 0, 0, 0

    def start(self, tell: Tell, check: Check) -> None:
        self._dynamics = settled_platform(self._molecule, self._config.dynamics, tell)
        n = len(self._config.temperatures)
        scale = torch.tensor(self._config.temperatures, dtype=torch.float64).sqrt().reshape(-1, 1, 1)
        velocities = scale * thermal_velocities(self._molecule, 1.0, n, self._config.seed)
        self._points = PhasePoints(self._molecule.positions.expand(n, -1, -1).clone(), velocities)

    def advance(self, segment: int, check: Check) -> Mapping[float, Recorded]:
        stage = self._config.stage(segment, 1)
        config = self._config
        with explosions_explained(self._molecule.name, 0):
            ladder = Ladder(self._molecule, config.temperatures, self._dynamics, config.seed, segment, check)
            ladder.place(self._points.centred())
            frames = self._frames(ladder, stage, segment)
        self._points = ladder.points()
        self._evaluations += ladder.evaluations
        self._attempts += ladder.attempts
        self._exchanges += ladder.exchanges
        if stage.piece < 0:
            return {}
        return {
            t: Recorded(torch.stack(frames[t]).unsqueeze(0), stage.piece, stage.frame) for t in self.folders
        }

    def _frames(self, ladder: Ladder, stage: Stage, segment: int) -> Mapping[float, list[Tensor]]:
        """Run one segment; return the frames at each temperature."""
        config, frames = self._config, defaultdict[float, list[Tensor]](list)
        if stage.piece < 0:
            done = segment * config.every * config.segment
            alone = min(max(config.steps(config.equilibration) - done, 0), stage.steps)
            # Between pieces that is none: they come after the equilibration.
            ladder.run_alone(alone)
            ladder.run(math.ceil((stage.steps - alone) / config.interval), config.interval)
            return frames
        for _ in range(config.segment):
            seen = ladder.run(config.every // config.interval, config.interval)
            for temperature in self.folders:
                frames[temperature].append(seen[config.temperatures.index(temperature)])
        return frames

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        numbers = {
            "dynamics": self._dynamics.model_dump(),
            "evaluations": self._evaluations,
            "attempts": self._attempts,
            "exchanges": self._exchanges,
        }
        return self._points._asdict(), numbers

    def restore(self, tensors: dict[str, Tensor], numbers: dict[str, Any]) -> None:
        self._points = PhasePoints(**tensors)
        self._dynamics = DynamicsConfig.parse(numbers["dynamics"])
        self._evaluations = numbers["evaluations"]
        self._attempts, self._exchanges = numbers["attempts"], numbers["exchanges"]

    @property
    def evaluations(self) -> int:
        """Forces and energies computed so far, of all temperatures."""
        return self._evaluations

    def report(self) -> str:
        share = f"{self._exchanges / self._attempts:.0%}" if self._attempts else "none tried"
        return f"{self._evaluations:,} energy evaluations, exchanges accepted: {share}"
