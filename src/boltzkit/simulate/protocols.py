"""All protocols by name: what a person types, its settings, and what runs them."""

from collections.abc import Callable
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from boltzkit.errors import UserError, did_you_mean
from boltzkit.molecule import Molecule
from boltzkit.simulate.ground_truth import BatchedSimulation, simulate_batched
from boltzkit.simulate.metadynamics import MetadynamicsSimulation, simulate_metadynamics
from boltzkit.simulate.molecular_dynamics import MDSimulation, simulate_md
from boltzkit.simulate.protocol import Protocol
from boltzkit.simulate.recording import Tell
from boltzkit.simulate.replica_exchange import ReplicaExchangeSimulation, simulate_replica_exchange
from boltzkit.simulate.seeded import SeededSimulation, simulate_seeded
from boltzkit.simulate.umbrella import UmbrellaSimulation, simulate_umbrella

__all__ = ["PROTOCOLS", "KnownProtocol", "find_protocol"]


class KnownProtocol(NamedTuple):
    """A protocol that can be asked for by name."""

    config: type[Protocol]
    simulate: Callable[[Molecule, Any, Path, Tell], None]

    def settings(self, given: dict[str, Any], seed: int) -> Protocol:
        """Return a complete configuration from what was given and the seed."""
        seeded = {"tempering": {"seed": seed}} if self.config is BatchedSimulation else {"seed": seed}
        return self.config.parse({**given, **seeded}, source="the simulation")


PROTOCOLS: MappingProxyType[str, KnownProtocol] = MappingProxyType(
    {
        "batched": KnownProtocol(BatchedSimulation, simulate_batched),
        "md": KnownProtocol(MDSimulation, simulate_md),
        "replica-exchange": KnownProtocol(ReplicaExchangeSimulation, simulate_replica_exchange),
        "seeded": KnownProtocol(SeededSimulation, simulate_seeded),
        "metadynamics": KnownProtocol(MetadynamicsSimulation, simulate_metadynamics),
        "umbrella": KnownProtocol(UmbrellaSimulation, simulate_umbrella),
    }
)


def find_protocol(name: str) -> KnownProtocol:
    """Return the protocol of a name."""
    if name not in PROTOCOLS:
        raise UserError(f"There is no protocol '{name}'.{did_you_mean(name, PROTOCOLS)}")
    return PROTOCOLS[name]
