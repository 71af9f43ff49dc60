"""Simulations that make energy-labelled data: a batched sampler, and molecular dynamics in several protocols."""

from boltzkit.simulate.dynamics import DynamicsConfig
from boltzkit.simulate.ground_truth import BatchedSimulation, simulate_batched, space_of
from boltzkit.simulate.internal_space import InternalSpace
from boltzkit.simulate.metadynamics import MetadynamicsSimulation, simulate_metadynamics
from boltzkit.simulate.minima import MinimaSearch, find_minima
from boltzkit.simulate.molecular_dynamics import MDSimulation, simulate_md
from boltzkit.simulate.presets import PRESETS, preset
from boltzkit.simulate.protocols import PROTOCOLS, find_protocol
from boltzkit.simulate.quality import Observable, Quality, assess
from boltzkit.simulate.replica_exchange import ReplicaExchangeSimulation, simulate_replica_exchange
from boltzkit.simulate.seeded import SeededSimulation, simulate_seeded
from boltzkit.simulate.space import CartesianSpace, PlainSpace, Space
from boltzkit.simulate.tempering import Sweep, Tempering, TemperingConfig
from boltzkit.simulate.umbrella import UmbrellaSimulation, simulate_umbrella

__all__ = [
    "PRESETS",
    "PROTOCOLS",
    "BatchedSimulation",
    "CartesianSpace",
    "DynamicsConfig",
    "InternalSpace",
    "MDSimulation",
    "MetadynamicsSimulation",
    "MinimaSearch",
    "Observable",
    "PlainSpace",
    "Quality",
    "ReplicaExchangeSimulation",
    "SeededSimulation",
    "Space",
    "Sweep",
    "Tempering",
    "TemperingConfig",
    "UmbrellaSimulation",
    "assess",
    "find_minima",
    "find_protocol",
    "preset",
    "simulate_batched",
    "simulate_md",
    "simulate_metadynamics",
    "simulate_replica_exchange",
    "simulate_seeded",
    "simulate_umbrella",
    "space_of",
]
