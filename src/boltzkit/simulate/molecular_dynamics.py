"""Molecular dynamics of independent trajectories into a dataset, resumable by segments."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import NonNegativeFloat, PositiveInt
from torch import Tensor

from boltzkit.molecule import Molecule
from boltzkit.simulate.dynamics import DynamicsConfig, Engine, PhasePoints, thermal_velocities
from boltzkit.simulate.engines import make_engine, settled
from boltzkit.simulate.protocol import Protocol
from boltzkit.simulate.recording import Check, Recorded, Run, Tell, record

__all__ = ["MDSimulation", "Stage", "Timeline", "TrajectoryRun", "simulate_md"]


class Stage(NamedTuple):
    """What one segment is for."""

    steps: int
    piece: int
    """Piece that the frames belong to; -1 while equilibrating or between pieces."""
    frame: int
    """Number of the first frame in its piece."""


class Timeline(Protocol):
    """Settings of everything that runs along time: equilibrate, then store every so many steps."""

    equilibration: NonNegativeFloat = 100.0
    """Time before the first sample, ps."""
    every: PositiveInt = 100
    """Time steps from one stored frame to the next."""
    segment: PositiveInt = 100
    """Frames of each trajectory that are stored at a time; at most so much is lost by a kill."""
    pieces: PositiveInt = 1
    """Pieces that each simulation is cut into along time; each counts as a trajectory of its own, so that a single long
    simulation has something to hold out."""
    gap: NonNegativeFloat = 100.0
    """Time between two pieces that is not stored, so that their ends are not alike, ps."""
    seed: int = 0
    """Of all draws."""
    dynamics: DynamicsConfig = DynamicsConfig()
    """How trajectories are integrated."""

    @property
    def run_seed(self) -> int:
        """The seed of all draws."""
        return self.seed

    def identity(self) -> dict[str, Any]:
        """Return the settings that a run cannot change; cut into pieces, that is the number of samples too."""
        fixed = {"samples": self.samples} if self.pieces > 1 else {}
        return super().identity() | fixed

    @property
    def waiting(self) -> float:
        """Time before the first stored frame, ps."""
        return self.equilibration

    @property
    def frame_interval(self) -> float | None:
        """Physical time from one stored frame to the next, ps."""
        return self.every * self.dynamics.step

    def steps(self, time: float) -> int:
        """Return the number of time steps in a time in ps."""
        return round(time / self.dynamics.step)

    def segments(self, simulations: int) -> int:
        """Return the number of segments when so many simulations run side by side."""
        return self._waits(self.waiting) + self.pieces * self._period(simulations) - self._waits(self.gap)

    def stage(self, segment: int, simulations: int) -> Stage:
        """Return what a segment is for: first equilibration, then the pieces, each followed by a gap."""
        waits, whole = self._waits(self.waiting), self.every * self.segment
        if segment < waits:
            return Stage(min(whole, self.steps(self.waiting) - segment * whole), -1, 0)
        piece, place = divmod(segment - waits, self._period(simulations))
        frames = self._period(simulations) - self._waits(self.gap)
        if place < frames:
            return Stage(whole, piece, place * self.segment)
        return Stage(min(whole, self.steps(self.gap) - (place - frames) * whole), -1, 0)

    def _period(self, simulations: int) -> int:
        """Return the segments of one piece and the gap behind it."""
        return -(-self.samples // (self.segment * self.pieces * simulations)) + self._waits(self.gap)

    def _waits(self, time: float) -> int:
        return -(-self.steps(time) // (self.every * self.segment))


class MDSimulation(Timeline):
    """Independent simulations that start from the reference structure with their own velocities and noise."""

    trajectories: PositiveInt = 10
    """Independent simulations; each is one trajectory."""

    @property
    def title(self) -> str:
        """How manifests call it."""
        return "molecular dynamics"


def simulate_md(molecule: Molecule, config: MDSimulation, out: Path, tell: Tell = print) -> None:
    """Simulate into a dataset folder; goes on where it stopped."""
    run = TrajectoryRun(molecule, config, lambda _: molecule.positions.expand(config.trajectories, -1, -1))
    record(molecule, config, run, out, tell)


class TrajectoryRun(Run):
    """Trajectories from given structures.

    Args:
        molecule: what moves.
        config: how, and for how long.
        starts: makes one structure for each simulation, ``(simulations, atoms, 3)`` nm; called by new runs alone.
    """

    def __init__(self, molecule: Molecule, config: Timeline, starts: Callable[[Tell], Tensor]) -> None:
        self._molecule, self._config, self._starts = molecule, config, starts
        self.folders = {config.temperature: ""}
        self._points: PhasePoints
        self._engine: Engine
        self._dynamics: DynamicsConfig

    def start(self, tell: Tell, check: Check) -> None:
        """Draw velocities, and settle what was left open."""
        starts = self._starts(tell).double()
        velocities = thermal_velocities(
            self._molecule, self._config.temperature, len(starts), self._config.seed
        )
        dynamics = settled(self._molecule, self._config.dynamics, len(starts), tell)
        self._take(PhasePoints(starts, velocities), dynamics, 0)

    def advance(self, segment: int, check: Check) -> Mapping[float, Recorded]:
        """Run one segment of all simulations."""
        simulations = len(self._points.positions)
        stage = self._config.stage(segment, simulations)
        stored = stage.piece >= 0
        every = self._config.every if stored else 0
        self._points, frames = self._engine.advance(self._points, segment, stage.steps, every, check)
        if not stored:
            return {}
        # Piece by piece, so that the last numbers, which may be for validation, are the latest in time.
        return {self._config.temperature: Recorded(frames, stage.piece * simulations, stage.frame)}

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Return positions, velocities, engine and counts."""
        numbers = {"dynamics": self._dynamics.model_dump(), "evaluations": self._engine.evaluations}
        return self._points._asdict(), numbers

    def restore(self, tensors: dict[str, Tensor], numbers: dict[str, Any]) -> None:
        """Take the state of a stopped run."""
        dynamics = DynamicsConfig.parse(numbers["dynamics"])
        self._take(PhasePoints(**tensors), dynamics, numbers["evaluations"])

    @property
    def evaluations(self) -> int:
        """Forces computed so far, also those before a stop."""
        return self._engine.evaluations

    def report(self) -> str:
        """Return the evaluations so far."""
        return f"{self.evaluations:,} energy evaluations"

    def _take(self, points: PhasePoints, dynamics: DynamicsConfig, evaluations: int) -> None:
        simulations = len(points.positions)
        self.trajectories = simulations * self._config.pieces
        self.segments = self._config.segments(simulations)
        self._points, self._dynamics = points, dynamics
        self._engine = make_engine(self._molecule, self._config.temperature, dynamics, self._config.seed)
        self._engine.evaluations = evaluations
