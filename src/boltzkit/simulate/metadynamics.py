"""Well-tempered metadynamics that stops growing before frames are stored, so that every frame has an exact bias."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from pydantic import Field, NonNegativeFloat, PositiveFloat, PositiveInt, model_validator
from torch import Tensor

from boltzkit.energy.constants import BOLTZMANN
from boltzkit.errors import UserError
from boltzkit.molecule import Molecule
from boltzkit.simulate.biased_dynamics import Walkers, only_residue, refuse_batched
from boltzkit.simulate.dynamics import DynamicsConfig, PhasePoints, thermal_velocities
from boltzkit.simulate.grid_bias import GridBias
from boltzkit.simulate.molecular_dynamics import Timeline
from boltzkit.simulate.openmm_engine import settled_platform
from boltzkit.simulate.recording import Check, Recorded, Run, Tell, as_stored, record

__all__ = ["MetadynamicsSimulation", "simulate_metadynamics"]

_POINTS = 3
"""Grid points per width of a Gaussian. What is between them is the spline's: that is the bias, to the last digit."""


class MetadynamicsSimulation(Timeline):
    r"""Walkers that fill the free-energy surface over one or two torsions with Gaussians, and then use it.

    For the time `filling` every walker adds a Gaussian to the common bias V now and then, of height
    $h\,e^{-V(s)/k_B\Delta T}$ with $\Delta T = (\gamma - 1)T$ (Barducci et al., 2008). Then the bias stands still.
    Frames are stored only from there on: they follow $e^{-\beta(U + V)}$ exactly, whether or not the filling had
    converged, and weigh $e^{\beta V}$ each.
    """

    torsions: tuple[tuple[int, int, int, int], ...] = Field((), max_length=2)
    """One or two torsions of four atoms, numbered from 0; φ and ψ by default where a molecule has one such pair."""
    walkers: PositiveInt = 4
    """Simulations that share the bias; each is one trajectory."""
    filling: NonNegativeFloat = 1000.0
    """Time for which each walker adds to the bias, ps."""
    equilibration: NonNegativeFloat = 20.0
    """Time after that, under the bias as it is then, before the first sample, ps."""
    height: PositiveFloat = 1.2
    """Height h of the first Gaussians, kJ/mol."""
    width: PositiveFloat = Field(0.35, lt=math.pi)
    """Their width, rad."""
    bias_factor: float = Field(10.0, gt=1)
    """γ: barriers are left with a share of 1/γ of their height."""
    deposit: PositiveInt = 500
    """Time steps from one Gaussian of a walker to its next."""

    @property
    def title(self) -> str:
        """How manifests call it."""
        return "well-tempered metadynamics, then dynamics under its bias as it was"

    @property
    def bias(self) -> str:
        """Why the samples are not of the Boltzmann distribution."""
        return (
            "a bias over torsions, made by metadynamics and constant since; every frame has its bias energy"
        )

    @property
    def waiting(self) -> float:
        """Time before the first stored frame, ps."""
        return self.filling + self.equilibration

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        refuse_batched(self.dynamics, "Metadynamics")
        if (self.every * self.segment) % self.deposit:
            raise UserError(
                f"every · segment = {self.every * self.segment} time steps must be a multiple of deposit = "
                f"{self.deposit}: a segment adds whole Gaussians."
            )
        if any(len(set(row)) < 4 or min(row) < 0 for row in self.torsions):
            raise UserError("A torsion has four different atoms, numbered from 0: mend torsions.")
        return self


def simulate_metadynamics(
    molecule: Molecule, config: MetadynamicsSimulation, out: Path, tell: Tell = print
) -> None:
    """Simulate into a dataset folder with the bias of every frame; goes on where it stopped."""
    record(molecule, config, _MetadynamicsRun(molecule, config), out, tell)


class _MetadynamicsRun(Run):
    """Walkers that share one bias on a grid, which is part of the state."""

    biased = True

    def __init__(self, molecule: Molecule, config: MetadynamicsSimulation) -> None:
        self._molecule, self._config = molecule, config
        self.trajectories = config.walkers * config.pieces
        self.segments = config.segments(config.walkers)
        self.folders = {config.temperature: ""}
        self._torsions = config.torsions or only_residue(molecule, "torsions")
        if max(max(row) for row in self._torsions) >= molecule.n_atoms:
            raise UserError(f"{molecule.name} has atoms 0 to {molecule.n_atoms - 1} only: mend torsions.")
        self._bins = math.ceil(_POINTS * 2 * math.pi / config.width)
        self._points: PhasePoints
        self._dynamics: DynamicsConfig
        self._grid: GridBias
        self._evaluations = 0

    def start(self, tell: Tell, check: Check) -> None:
        config, n = self._config, self._config.walkers
        self._dynamics = settled_platform(self._molecule, config.dynamics, tell)
        velocities = thermal_velocities(self._molecule, config.temperature, n, config.seed)
        self._points = PhasePoints(self._molecule.positions.double().expand(n, -1, -1).clone(), velocities)
        zero = torch.zeros((self._bins,) * len(self._torsions), dtype=torch.float64)
        self._grid = GridBias(self._molecule, self._torsions, zero)

    def advance(self, segment: int, check: Check) -> Mapping[float, Recorded]:
        config = self._config
        stage = config.stage(segment, config.walkers)
        done = segment * config.every * config.segment
        filling = min(max(config.steps(config.filling) - done, 0), stage.steps)
        # Made anew like the Contexts, so that nothing of an earlier segment is left in it but its values.
        self._grid = GridBias(self._molecule, self._torsions, self._grid.values)
        walkers = Walkers(
            self._molecule,
            [self._grid.system] * config.walkers,
            self._points,
            config.temperature,
            self._dynamics,
            config.seed,
            segment,
        )
        for _ in range(filling // config.deposit):
            walkers.step(config.deposit, check)
            self._deposit(walkers)
        recorded: dict[float, Recorded] = {}
        if stage.piece >= 0:
            frames = walkers.frames(config.segment, config.every, check)
            first = stage.piece * config.walkers
            recorded[config.temperature] = Recorded(frames, first, stage.frame, self._bias(frames))
        else:
            walkers.step(stage.steps - filling // config.deposit * config.deposit, check)
        self._points = walkers.points()
        self._evaluations += walkers.evaluations
        return recorded

    def _deposit(self, walkers: Walkers) -> None:
        """Let every walker add a Gaussian where it is, lower where the bias is high already."""
        config = self._config
        positions = walkers.positions()
        tempering = BOLTZMANN * config.temperature * (config.bias_factor - 1)
        heights = config.height * np.exp(-self._grid.energy(positions) / tempering)
        self._grid.add(self._grid.angles(positions), heights.tolist(), config.width, walkers.contexts)

    def _bias(self, frames: Tensor) -> Tensor:
        found = self._grid.energy(as_stored(frames).flatten(0, 1))
        return torch.from_numpy(found).reshape(frames.shape[:2])

    @property
    def source(self) -> dict[str, Any]:
        """What the frames' weights need to know: walkers of one run share one bias."""
        name = f"metadynamics {self._config.split} seed {self._config.seed}"
        return {"bias": {"from": "metadynamics over torsions", "group": name, "torsions": self._torsions}}

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        tensors = {**self._points._asdict(), "bias": self._grid.values}
        return tensors, {"dynamics": self._dynamics.model_dump(), "evaluations": self._evaluations}

    def restore(self, tensors: dict[str, Tensor], numbers: dict[str, Any]) -> None:
        self._points = PhasePoints(tensors["positions"], tensors["velocities"])
        self._grid = GridBias(self._molecule, self._torsions, tensors["bias"])
        self._dynamics = DynamicsConfig.parse(numbers["dynamics"])
        self._evaluations = numbers["evaluations"]

    @property
    def evaluations(self) -> int:
        """Forces computed so far, also those before a stop."""
        return self._evaluations

    def report(self) -> str:
        return f"{self._evaluations:,} energy evaluations, bias up to {float(self._grid.values.max()):.1f} kJ/mol"
