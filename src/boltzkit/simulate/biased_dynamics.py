"""OpenMM Contexts of trajectories that feel a bias: made anew for every segment, so that a segment can be repeated."""

import copy
from collections.abc import Sequence
from typing import Any

import numpy as np
import openmm
import torch
from openmm import unit
from torch import Tensor

from boltzkit.errors import UserError
from boltzkit.molecule import Backbone, Molecule
from boltzkit.simulate.dynamics import DynamicsConfig, PhasePoints
from boltzkit.simulate.openmm_engine import (
    explosions_explained,
    langevin_integrator,
    openmm_seed,
    phase_point,
    platform_arguments,
    tight,
)
from boltzkit.simulate.recording import Check

__all__ = ["Walkers", "only_residue", "refuse_batched", "with_force"]

_CHECKED = 1000
"""Steps between two looks at whether a stop was asked for."""


class Walkers:
    """Trajectories side by side for one segment.

    Args:
        molecule: what moves.
        systems: one for each trajectory; the same may stand for several.
        points: where the segment begins.
        temperature: kelvin.
        config: how; the platform must be named.
        seed: of all noise.
        segment: its number: with the seed, it makes the noise.

    Attributes:
        contexts: one for each trajectory.
        evaluations: forces computed in this segment.
    """

    def __init__(
        self,
        molecule: Molecule,
        systems: Sequence[Any],
        points: PhasePoints,
        temperature: float,
        config: DynamicsConfig,
        seed: int,
        segment: int,
    ) -> None:
        self._molecule, self.evaluations = molecule, 0
        self.contexts = []
        for number, (system, x, v) in enumerate(zip(systems, *points.centred(), strict=True)):
            integrator = langevin_integrator(
                temperature, config, openmm_seed(seed, f"segment {segment}", number)
            )
            context = openmm.Context(system, integrator, *platform_arguments(config))
            context.setPositions(x.numpy())
            context.setVelocities(v.numpy())
            tight(context)
            self.contexts.append(context)

    def step(self, steps: int, check: Check) -> None:
        """Integrate every trajectory for some steps."""
        for number, context in enumerate(self.contexts):
            with explosions_explained(self._molecule.name, number):
                for start in range(0, steps, _CHECKED):
                    check()
                    context.getIntegrator().step(min(_CHECKED, steps - start))
            self.evaluations += steps

    def frames(self, count: int, every: int, check: Check) -> Tensor:
        """Integrate and return the positions after every so many steps, ``(trajectories, count, atoms, 3)`` nm."""
        seen = []
        for _ in range(count):
            self.step(every, check)
            seen.append(self.positions())
        return torch.stack(seen, dim=1)

    def positions(self) -> Tensor:
        """Return where the trajectories are, ``(trajectories, atoms, 3)`` nm."""
        states = [context.getState(positions=True) for context in self.contexts]
        rows = [state.getPositions(asNumpy=True).value_in_unit(unit.nanometer) for state in states]
        return torch.from_numpy(np.array(rows, dtype=np.float64))

    def points(self) -> PhasePoints:
        """Return positions and velocities, to begin the next segment with."""
        ends = [
            phase_point(context.getState(positions=True, velocities=True), self._molecule.name, number)
            for number, context in enumerate(self.contexts)
        ]
        return PhasePoints(*(torch.stack(part) for part in zip(*ends, strict=True)))


def with_force(molecule: Molecule, force: Any) -> Any:
    """Return the molecule's System with one more force; the molecule's own is left as it is."""
    system = copy.deepcopy(molecule.system)
    system.addForce(force)
    return system


def only_residue(molecule: Molecule, setting: str) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return φ and ψ of the only residue that has both; refuse to guess where there are more or none."""
    backbone = Backbone.of(molecule.topology)
    if len(backbone.names) != 1:
        found = "; ".join(
            f"{name}: φ {phi}, ψ {psi}"
            for name, phi, psi in zip(
                backbone.names, backbone.phi.tolist(), backbone.psi.tolist(), strict=True
            )
        )
        raise UserError(
            f"{molecule.name} has {len(backbone.names)} residues with φ and ψ: name the atoms with {setting}"
            + (f" ({found})." if found else ".")
        )
    return tuple(backbone.phi[0].tolist()), tuple(backbone.psi[0].tolist())


def refuse_batched(config: DynamicsConfig, what: str) -> None:
    """Refuse the batched engine, which knows no bias."""
    if config.engine == "batched":
        raise UserError(f"{what} runs in OpenMM, not on the batched engine: set dynamics.engine=openmm.")
