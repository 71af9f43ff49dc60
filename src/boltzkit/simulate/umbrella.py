"""Umbrella sampling: harmonic windows along one torsion, each a simulation of its own."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import numpy as np
import openmm
import torch
from pydantic import Field, NonNegativeFloat, PositiveFloat, model_validator
from torch import Tensor

from boltzkit.data import Window
from boltzkit.errors import UserError
from boltzkit.molecule import Molecule
from boltzkit.molecule.graph import neighbours, reachable
from boltzkit.molecule.minimise import minimise
from boltzkit.molecule.torsions import dihedral, turned_about
from boltzkit.simulate.biased_dynamics import Walkers, only_residue, refuse_batched, with_force
from boltzkit.simulate.dynamics import DynamicsConfig, PhasePoints, thermal_velocities
from boltzkit.simulate.molecular_dynamics import Timeline
from boltzkit.simulate.openmm_engine import settled_platform
from boltzkit.simulate.recording import Check, Recorded, Run, Tell, as_stored, record

__all__ = ["UmbrellaSimulation", "simulate_umbrella", "spring"]

_ENERGY = f"0.5*k*d^2; d=min(a, {2 * math.pi!r}-a); a=abs(theta-centre)"


class UmbrellaSimulation(Timeline):
    r"""One simulation per window, under $V(x) = \tfrac12 k\,(s(x) - s_0)^2$, the difference taken the short way round.

    Each window starts from the reference structure with the torsion turned to its centre, after a descent to the
    nearest minimum under the spring. Weights join all windows by MBAR.
    """

    torsion: tuple[int, int, int, int] | None = None
    """Four atoms, numbered from 0; φ by default where a molecule has a single one."""
    windows: int = Field(24, ge=2)
    """Windows, evenly spaced around the circle."""
    centres: tuple[float, ...] = ()
    """Centres of the windows instead, rad."""
    force_constant: PositiveFloat = 60.0
    """k, kJ/mol/rad²: at 300 K a window is √(k_BT/k) = 0.2 rad wide, and neighbours should be that close."""
    equilibration: NonNegativeFloat = 20.0
    """Time before the first sample, ps."""

    @property
    def title(self) -> str:
        """How manifests call it."""
        return "umbrella sampling along a torsion"

    @property
    def bias(self) -> str:
        """Why the samples are not of the Boltzmann distribution."""
        return "harmonic umbrella windows; every frame has the bias energy of its own"

    @property
    def places(self) -> tuple[float, ...]:
        """The centres, within (−π, π], rad."""
        even = tuple(-math.pi + 2 * math.pi * (i + 1) / self.windows for i in range(self.windows))
        return tuple(math.atan2(math.sin(c), math.cos(c)) for c in self.centres) or even

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        refuse_batched(self.dynamics, "Umbrella sampling")
        if any(abs(centre) > 2 * math.pi for centre in self.centres):
            raise UserError("The centres of umbrella windows are in radians, within ±2π: mend centres.")
        n = len(self.places)
        if len(set(self.places)) < max(n, 2):
            raise UserError("Umbrella sampling needs two different centres at least: mend centres.")
        if round(self.validation * n * self.pieces) % n:
            raise UserError(
                f"validation = {self.validation:g} would hold out some of the {n} windows and not others: cut the "
                "simulations into pieces along time, and hold out whole ones, such as pieces=5 with validation=0.2."
            )
        return self


def simulate_umbrella(molecule: Molecule, config: UmbrellaSimulation, out: Path, tell: Tell = print) -> None:
    """Simulate all windows into a dataset folder with the bias of every frame; goes on where it stopped."""
    record(molecule, config, _UmbrellaRun(molecule, config), out, tell)


def spring(window: Window) -> Any:
    """Return the OpenMM force of a window on a torsion."""
    assert window.torsion is not None
    force = openmm.CustomTorsionForce(_ENERGY)
    # OpenMM's theta lies within (−π, π], and the shorter way is found for centres that do too.
    force.addGlobalParameter("centre", math.atan2(math.sin(window.centre), math.cos(window.centre)))
    force.addGlobalParameter("k", window.force_constant)
    force.addTorsion(*window.torsion, [])
    return force


class _UmbrellaRun(Run):
    """One trajectory for each window and piece along time."""

    biased = True

    def __init__(self, molecule: Molecule, config: UmbrellaSimulation) -> None:
        self._molecule, self._config = molecule, config
        torsion = config.torsion or only_residue(molecule, "torsion")[0]
        if max(torsion) >= molecule.n_atoms:
            raise UserError(f"{molecule.name} has atoms 0 to {molecule.n_atoms - 1} only: mend torsion.")
        settings = {"torsion": torsion, "force_constant": config.force_constant}
        self._windows = [Window.parse({**settings, "centre": centre}) for centre in config.places]
        self._systems = [with_force(molecule, spring(window)) for window in self._windows]
        self.trajectories = len(self._windows) * config.pieces
        self.segments = config.segments(len(self._windows))
        self.folders = {config.temperature: ""}
        self._points: PhasePoints
        self._dynamics: DynamicsConfig
        self._evaluations = 0

    def start(self, tell: Tell, check: Check) -> None:
        config = self._config
        self._dynamics = settled_platform(self._molecule, config.dynamics, tell)
        starts = []
        for window, system in zip(self._windows, self._systems, strict=True):
            check()
            starts.append(minimise(system, _turned(self._molecule, window), self._molecule.name).positions)
        velocities = thermal_velocities(self._molecule, config.temperature, len(starts), config.seed)
        self._points = PhasePoints(torch.stack(starts).double(), velocities)

    def advance(self, segment: int, check: Check) -> Mapping[float, Recorded]:
        config, n = self._config, len(self._windows)
        stage = config.stage(segment, n)
        walkers = Walkers(
            self._molecule,
            self._systems,
            self._points,
            config.temperature,
            self._dynamics,
            config.seed,
            segment,
        )
        recorded: dict[float, Recorded] = {}
        if stage.piece >= 0:
            frames = walkers.frames(config.segment, config.every, check)
            recorded[config.temperature] = Recorded(frames, stage.piece * n, stage.frame, self._bias(frames))
        else:
            walkers.step(stage.steps, check)
        self._points = walkers.points()
        self._evaluations += walkers.evaluations
        return recorded

    def _bias(self, frames: Tensor) -> Tensor:
        """Return what each frame feels of its own window."""
        pairs = zip(self._windows, as_stored(frames).numpy(), strict=True)
        return torch.from_numpy(np.stack([window.energy(window.coordinate(x)) for window, x in pairs]))

    @property
    def source(self) -> dict[str, Any]:
        """What the frames' weights need to know: the windows, in the order of the trajectories."""
        return {"umbrella": [window.model_dump(mode="json", exclude_none=True) for window in self._windows]}

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        numbers = {"dynamics": self._dynamics.model_dump(), "evaluations": self._evaluations}
        return self._points._asdict(), numbers

    def restore(self, tensors: dict[str, Tensor], numbers: dict[str, Any]) -> None:
        self._points = PhasePoints(**tensors)
        self._dynamics = DynamicsConfig.parse(numbers["dynamics"])
        self._evaluations = numbers["evaluations"]

    @property
    def evaluations(self) -> int:
        """Forces computed so far, also those before a stop."""
        return self._evaluations

    def report(self) -> str:
        return f"{self._evaluations:,} energy evaluations in {len(self._windows)} windows"


def _turned(molecule: Molecule, window: Window) -> Tensor:
    """Return the reference structure with the torsion at the window's centre; in a ring the spring has to pull it."""
    assert window.torsion is not None
    _, near_end, far_end, _ = window.torsion
    x = molecule.positions.double()
    beyond = reachable(far_end, neighbours(molecule.topology), without=(near_end, far_end))
    if near_end in beyond:
        return x
    angle = window.centre - dihedral(x, torch.tensor([window.torsion]))[0]
    return turned_about(x, (near_end, far_end), torch.tensor(sorted(beyond - {far_end})), angle)
