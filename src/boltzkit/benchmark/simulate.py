"""Independent samples per hour: the batched sampler against molecular dynamics, batched and by OpenMM."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from boltzkit.benchmark.timing import interleaved, on_threads
from boltzkit.data import autocorrelation_time
from boltzkit.errors import UserError
from boltzkit.molecule import Backbone, Molecule, read_molecule
from boltzkit.report import csv_text, markdown_table
from boltzkit.simulate import CartesianSpace, Tempering, TemperingConfig
from boltzkit.simulate.dynamics import DynamicsConfig, Engine, PhasePoints, thermal_velocities
from boltzkit.simulate.engines import make_engine, settled
from boltzkit.storage import write_bytes

__all__ = ["Mixing", "SimulationBenchmark", "SimulationCost", "benchmark_simulate", "mixing", "visits"]

SAMPLER, BATCHED, OPENMM = "batched sampler", "dynamics, batched", "dynamics, OpenMM"
_TEMPERATURE, _SEED = 300.0, 0
_EVERY = 200
"""Time steps between frames of the dynamics."""
_NOTE = (
    "One thread each, medians of interleaved rounds. A step is a time step of 1 fs (friction 1/ps) or a sweep of the "
    "sampler: about six leapfrog steps and eight turns. τ is the longest integrated autocorrelation time of cos and "
    "sin of φ and ψ. Both dynamics integrate the same equations with the same scheme, so τ and the rate of visits are "
    "measured once, on the batched one, from equilibrium. A visit is a passage from φ < -0.5 to 0.5 < φ < 1.6, the "
    "rare side."
)


@dataclass(frozen=True)
class Mixing:
    """How fast torsions forget.

    Attributes:
        time: longest integrated autocorrelation time, in steps.
        visits: passages to φ > 0 per million steps and trajectory.
    """

    time: float
    visits: float


@dataclass(frozen=True)
class SimulationCost:
    """What one contender takes for one step of one trajectory, and what the step is worth."""

    molecule: str
    contender: str
    trajectories: int
    microseconds: float
    mixing: Mixing

    @property
    def effective_per_hour(self) -> float:
        """Independent samples of the slowest torsion per hour."""
        return 3.6e9 / (self.microseconds * self.mixing.time)

    @property
    def visits_per_hour(self) -> float:
        """Passages to φ > 0 per hour."""
        return 3.6e3 / self.microseconds * self.mixing.visits


@dataclass(frozen=True)
class SimulationBenchmark:
    """All contenders of one run."""

    costs: tuple[SimulationCost, ...]

    def ratio(self, cost: SimulationCost) -> float:
        """Return how many times as many independent samples a contender makes as OpenMM."""
        other = next(c for c in self.costs if (c.molecule, c.contender) == (cost.molecule, OPENMM))
        return cost.effective_per_hour / other.effective_per_hour

    def to_csv(self) -> str:
        """Return one line per contender."""
        names = ["molecule", "contender", "trajectories", "microseconds_per_step", "tau_steps"]
        per_hour = ["effective_per_hour", "visits_per_hour", "times_as_many_as_openmm"]
        rows = []
        for c in self.costs:
            numbers = (c.microseconds, c.mixing.time, c.effective_per_hour, c.visits_per_hour, self.ratio(c))
            rows.append([c.molecule, c.contender, c.trajectories, *(f"{value:.6g}" for value in numbers)])
        return csv_text([*names, *per_hour], rows)

    def to_markdown(self) -> str:
        """Return a table of what an hour of one core makes."""
        head = ["molecule", "contender", "at once", "µs per step", "τ, steps"]
        rows = []
        for c in self.costs:
            steps = (f"{c.microseconds:.2f}", f"{c.mixing.time:,.0f}")
            worth = (f"{c.effective_per_hour:,.0f} ({self.ratio(c):,.0f}×)", f"{c.visits_per_hour:,.1f}")
            rows.append([c.molecule, c.contender, f"{c.trajectories:,}", *steps, *worth])
        return markdown_table([*head, "effective samples an hour", "visits an hour"], rows)

    def write(self, out: Path) -> None:
        """Write table.md and table.csv."""
        text = f"# What an hour of one core makes\n\n{self.to_markdown()}\n{_NOTE}\n"
        write_bytes(out / "table.md", text.encode())
        write_bytes(out / "table.csv", self.to_csv().encode())


def benchmark_simulate(
    molecules: tuple[str, ...] | list[str],
    batch: int = 512,
    rounds: int = 9,
    picoseconds: float = 160.0,
    sweeps: int = 600,
    tell: Callable[[str], None] = lambda text: None,
) -> SimulationBenchmark:
    """Measure how fast torsions forget, then time all contenders side by side.

    Args:
        molecules: names or sequences of peptides without constraints.
        batch: walkers and batched trajectories.
        rounds: how often each contender is timed.
        picoseconds: length of the dynamics whose autocorrelation is measured; some times τ.
        sweeps: of the sampler, likewise, after half as many to equilibrate.
        tell: takes progress.
    """
    costs: list[SimulationCost] = []
    for name in molecules:
        molecule = read_molecule(name)
        if len(molecule.constraints) or not Backbone.of(molecule.topology).names:
            raise UserError(f"{name} is no peptide without constraints, which this benchmark takes.")
        with on_threads(1):
            costs += _benchmark(molecule, batch, rounds, picoseconds, sweeps, tell)
    return SimulationBenchmark(tuple(costs))


def _benchmark(
    molecule: Molecule,
    batch: int,
    rounds: int,
    picoseconds: float,
    sweeps: int,
    tell: Callable[[str], None],
) -> list[SimulationCost]:
    backbone = Backbone.of(molecule.topology)
    tell(f"{molecule.name}: autocorrelation of the batched sampler")
    walkers, angles = _sampler(molecule, backbone, batch, sweeps)
    known = {SAMPLER: mixing(angles, 1)}
    tell(f"{molecule.name}: autocorrelation of {picoseconds:g} ps of dynamics, {batch} trajectories")
    engine, points, angles = _dynamics(
        molecule, backbone, walkers.space.positions(walkers.walkers.y[0]), picoseconds
    )
    known[BATCHED] = known[OPENMM] = mixing(angles, _EVERY)
    tell(f"{molecule.name}: timing")
    config = settled(molecule, DynamicsConfig(engine="openmm"), 1, tell)
    single, one = make_engine(molecule, _TEMPERATURE, config, _SEED), PhasePoints(*(p[:1] for p in points))
    work: dict[str, tuple[Callable[[], object], int, int]] = {
        SAMPLER: (lambda: list(walkers.run(5)), batch, 5),
        BATCHED: (lambda: engine.advance(points, 0, 50, 0, lambda: None), batch, 50),
        OPENMM: (lambda: single.advance(one, 0, 1000, 0, lambda: None), 1, 1000),
    }
    seconds = interleaved({key: run for key, (run, _, _) in work.items()}, rounds)
    return [
        SimulationCost(molecule.name, key, n, 1e6 * seconds[key] / (n * steps), known[key])
        for key, (_, n, steps) in work.items()
    ]


def _sampler(molecule: Molecule, backbone: Backbone, walkers: int, sweeps: int) -> tuple[Tempering, Tensor]:
    """Return equilibrated walkers, and their φ and ψ in every sweep, ``(walkers, sweeps, residues, 2)``."""
    space = CartesianSpace(molecule, molecule.energy(_TEMPERATURE))
    run = Tempering.start(
        space, TemperingConfig(walkers=walkers, seed=_SEED), molecule.positions.float()[None]
    )
    for _ in run.run(sweeps // 2, adapt=True):
        pass
    return run, torch.stack([backbone.angles(sweep.y) for sweep in run.run(sweeps)], dim=1)


def _dynamics(
    molecule: Molecule, backbone: Backbone, x: Tensor, picoseconds: float
) -> tuple[Engine, PhasePoints, Tensor]:
    """Return the engine, where trajectories from equilibrium ended, and their φ and ψ in every frame."""
    config = DynamicsConfig(engine="batched")
    engine = make_engine(molecule, _TEMPERATURE, config, _SEED)
    points = PhasePoints(x.double(), thermal_velocities(molecule, _TEMPERATURE, len(x), _SEED))
    angles = []
    for segment in range(max(2, round(picoseconds / (config.step * _EVERY)))):
        points, frames = engine.advance(points, segment, _EVERY, _EVERY, lambda: None)
        angles.append(backbone.angles(frames[:, -1]))
    return engine, points, torch.stack(angles, dim=1)


def mixing(angles: Tensor, every: int) -> Mixing:
    """Measure autocorrelation and visits from φ and ψ along trajectories, ``(trajectories, frames, residues, 2)``.

    Args:
        angles: radians.
        every: steps from one frame to the next.
    """
    waves = torch.cat([angles.cos(), angles.sin()], dim=-1).flatten(2)
    slowest = max(autocorrelation_time(waves[..., k]) for k in range(waves.shape[-1]))
    n, frames = angles.shape[:2]
    seen = sum(visits(angles[..., residue, 0]) for residue in range(angles.shape[2]))
    return Mixing(slowest * every, 1e6 * seen / (n * frames * every))


def visits(phi: Tensor) -> int:
    """Count passages from φ < −0.5 to 0.5 < φ < 1.6 along trajectories, ``(trajectories, frames)``.

    What lies between belongs to where the trajectory was last, so that jitter on the barrier counts for nothing.
    """
    core = torch.where(
        (phi < -0.5) & (phi > -math.pi + 0.3), -1, torch.where((phi > 0.5) & (phi < 1.6), 1, 0)
    )
    count = 0
    for row in core:
        passed = row[row != 0]
        count += int((passed.diff() > 0).sum())
    return count
