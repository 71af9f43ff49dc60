"""OpenMM's replica-exchange sampler for one segment, with exchanges that follow from the seed alone."""

import math
from collections.abc import Sequence
from typing import Any

import torch
from openmm import app, unit
from torch import Tensor

from boltzkit.energy.constants import BOLTZMANN
from boltzkit.errors import UserError
from boltzkit.molecule import Molecule
from boltzkit.randomness import generator
from boltzkit.simulate.dynamics import DynamicsConfig, PhasePoints
from boltzkit.simulate.openmm_engine import (
    langevin_integrator,
    openmm_seed,
    phase_point,
    platform_arguments,
    tight,
)
from boltzkit.simulate.recording import Check

__all__ = ["Ladder", "accepts"]

_CHECKED = 1000
"""Steps between two looks at whether a stop was asked for."""


def accepts(energies: tuple[float, float], thermal: tuple[float, float], draw: float) -> bool:
    """Tell whether two replicas exchange their temperatures, by Metropolis' rule.

    log α = (1/kT₁ − 1/kT₂)(E₁ − E₂), which keeps the joint distribution of all replicas (Sugita and Okamoto, 1999).

    Args:
        energies: E₁, E₂ in kJ/mol.
        thermal: kT₁, kT₂ of the temperatures that they have, kJ/mol.
        draw: uniform in [0, 1).
    """
    log_alpha = (1 / thermal[0] - 1 / thermal[1]) * (energies[0] - energies[1])
    return draw < math.exp(min(log_alpha, 0.0))  # the exponential of a clash would overflow


class Ladder:
    """Replicas of one molecule at several temperatures, for one segment.

    OpenMM integrates, rescales velocities and keeps the books; the exchanges are drawn here, because OpenMM draws them
    from Python's global generator.

    Args:
        molecule: what moves.
        temperatures: kelvin.
        config: how; the platform must be named.
        seed: of all draws.
        segment: number of the segment.
        check: raises when a stop was asked for.

    Attributes:
        evaluations: forces and energies computed.
        attempts: exchanges tried between any two replicas.
        exchanges: exchanges made.
    """

    def __init__(
        self,
        molecule: Molecule,
        temperatures: Sequence[float],
        config: DynamicsConfig,
        seed: int,
        segment: int,
        check: Check,
    ) -> None:
        integrator = langevin_integrator(temperatures[0], config, openmm_seed(seed, "ladder", segment))
        self._simulation = app.Simulation(
            molecule.topology, molecule.system, integrator, *platform_arguments(config)
        )
        self._molecule, self._temperatures, self._check = molecule, temperatures, check
        self._thermal = [BOLTZMANN * t for t in temperatures]
        self._random = generator(seed, "exchanges", segment)
        self._ran = list(range(len(temperatures)))
        self._sampler: Any
        self.evaluations = self.attempts = self.exchanges = 0

    def place(self, points: PhasePoints) -> None:
        """Put one replica at each temperature, in their order."""
        context, states = self._simulation.context, []
        for x, v in zip(*points, strict=True):
            context.setPositions(x.numpy())
            context.setVelocities(v.numpy())
            tight(context)
            states.append(
                context.getState(positions=True, velocities=True, parameters=True, integratorParameters=True)
            )
        self._sampler = _new_sampler(self._temperatures, self._simulation)
        self._sampler.replicaConformation = states
        self._sampler.exchangeReplicas = self._exchange

    def run_alone(self, steps: int) -> None:
        """Let every replica run at its temperature."""
        for replica in range(len(self._temperatures)):
            for start in range(0, steps, _CHECKED):
                self._check()
                self._sampler.simulateReplica(replica, min(_CHECKED, steps - start))
            self.evaluations += steps

    def run(self, iterations: int, interval: int) -> Tensor:
        """Run, exchange, run, exchange; return what was seen at each temperature before the last exchange.

        Args:
            iterations: exchanges.
            interval: time steps before each.

        Returns:
            positions, ``(temperatures, atoms, 3)`` nm.
        """
        self._sampler.stepsPerIteration = interval
        self._sampler.simulate(iterations)
        self.evaluations += iterations * (interval + 1) * len(self._temperatures)
        return self._by_temperature(self._ran).positions

    def points(self) -> PhasePoints:
        """Return positions and velocities by temperature, velocities scaled to the temperature after the exchange."""
        now = self._sampler.replicaStateIndex
        points = self._by_temperature(now)
        # A replica that changed from T to T' has velocities of T until OpenMM or this line rescales them.
        before = {new: old for old, new in zip(self._ran, now, strict=True)}
        kelvin = self._temperatures
        factors = [math.sqrt(kelvin[k] / kelvin[before[k]]) for k in range(len(kelvin))]
        scale = torch.tensor(factors, dtype=torch.float64).reshape(-1, 1, 1)
        return PhasePoints(points.positions, scale * points.velocities)

    def _by_temperature(self, places: Sequence[int]) -> PhasePoints:
        """Return the replicas' points ordered by the places they are given."""
        rows = {
            place: phase_point(state, self._molecule.name, replica)
            for replica, (place, state) in enumerate(
                zip(places, self._sampler.replicaConformation, strict=True)
            )
        }
        return PhasePoints(*(torch.stack([rows[k][part] for k in range(len(rows))]) for part in (0, 1)))

    def _exchange(self) -> None:
        """Try as many exchanges between two replicas drawn at random as there are pairs, both ways."""
        self._check()
        places, n = self._sampler.replicaStateIndex, len(self._temperatures)
        self._ran = places[:]
        energies = [
            float(e[0].value_in_unit(unit.kilojoule_per_mole)) for e in self._sampler.replicaStateEnergy
        ]
        one = torch.randint(n, (n * n,), generator=self._random)
        other = (one + 1 + torch.randint(n - 1, (n * n,), generator=self._random)) % n
        draws = torch.rand(n * n, generator=self._random, dtype=torch.float64)
        for i, j, draw in zip(one.tolist(), other.tolist(), draws.tolist(), strict=True):
            thermal = self._thermal[places[i]], self._thermal[places[j]]
            if accepts((energies[i], energies[j]), thermal, draw):
                places[i], places[j] = places[j], places[i]
                self.exchanges += 1
        self.attempts += n * n


def _new_sampler(temperatures: Sequence[float], simulation: Any) -> Any:
    kind = getattr(app, "ReplicaExchangeSampler", None)
    if kind is None:
        raise UserError("Replica exchange needs OpenMM 8.6 or later: pip install --upgrade openmm.")
    return kind([{"temperature": t * unit.kelvin} for t in temperatures], simulation, 1)
