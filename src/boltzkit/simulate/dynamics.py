"""Langevin dynamics of independent trajectories: what an engine does, and how it is set."""

from abc import ABC, abstractmethod
from typing import Literal, NamedTuple

import torch
from pydantic import PositiveFloat, PositiveInt
from torch import Tensor

from boltzkit.config import Config
from boltzkit.energy.constants import BOLTZMANN
from boltzkit.errors import UserError
from boltzkit.molecule import Molecule
from boltzkit.randomness import generator
from boltzkit.simulate.recording import Check

__all__ = ["Advanced", "DynamicsConfig", "Engine", "PhasePoints", "exploded", "masses", "thermal_velocities"]


class DynamicsConfig(Config):
    """How trajectories are integrated."""

    step: PositiveFloat = 0.001
    """Time step, ps."""
    friction: PositiveFloat = 1.0
    """Friction of the Langevin thermostat, 1/ps."""
    engine: Literal["auto", "openmm", "batched"] = "auto"
    """OpenMM, one trajectory after the other; or the batched force field, all at once: auto takes the latter for eight
    trajectories or more without constraints."""
    platform: Literal["auto", "Reference", "CPU", "CUDA", "OpenCL", "HIP"] = "auto"
    """OpenMM's platform: auto measures those that are there and takes the fastest."""
    threads: PositiveInt = 1
    """Threads of OpenMM's CPU platform. Small molecules are slower on more than one."""


class PhasePoints(NamedTuple):
    """Positions and velocities of all trajectories, ``(trajectories, atoms, 3)``, float64, nm and nm/ps."""

    positions: Tensor
    velocities: Tensor

    def centred(self) -> "PhasePoints":
        """Return the same with every molecule at the origin.

        The thermostat lets the centre of mass diffuse by many nm, where single precision has few decimals left.
        """
        return PhasePoints(self.positions - self.positions.mean(-2, keepdim=True), self.velocities)


class Advanced(NamedTuple):
    """Where trajectories have come, and the frames on their way."""

    points: PhasePoints
    frames: Tensor
    """``(trajectories, frames, atoms, 3)`` nm, float64; no frames when none were asked for."""


class Engine(ABC):
    """Integrates with the middle scheme of Zhang et al. (2019), OpenMM's LangevinMiddleIntegrator.

    Attributes:
        evaluations: forces computed so far, one per step and trajectory.
    """

    evaluations: int = 0

    @abstractmethod
    def advance(self, points: PhasePoints, segment: int, steps: int, every: int, check: Check) -> Advanced:
        """Integrate all trajectories; the same numbers give the same result, whatever was run before.

        Args:
            points: where they are.
            segment: number of the segment: with the seed, it makes the noise.
            steps: time steps.
            every: steps from one frame to the next; 0 keeps none.
            check: raises when a stop was asked for.
        """


def masses(molecule: Molecule) -> Tensor:
    """Return the masses of the atoms in dalton, ``(atoms, 1)``, float64."""
    values = [molecule.system.getParticleMass(i)._value for i in range(molecule.n_atoms)]
    return torch.tensor(values, dtype=torch.float64).unsqueeze(-1)


def thermal_velocities(molecule: Molecule, temperature: float, n: int, seed: int) -> Tensor:
    """Draw velocities of the Maxwell-Boltzmann distribution, ``(n, atoms, 3)`` nm/ps."""
    noise = torch.randn(
        n, molecule.n_atoms, 3, generator=generator(seed, "first velocities"), dtype=torch.float64
    )
    return (BOLTZMANN * temperature / masses(molecule)).sqrt() * noise


def exploded(molecule: str, trajectory: int) -> UserError:
    """Return the sentence for coordinates that are no numbers any more."""
    return UserError(
        f"The simulation of {molecule} exploded, coordinates of trajectory {trajectory} are not finite: take a shorter "
        "dynamics.step or a better starting structure; what was stored before is intact."
    )
