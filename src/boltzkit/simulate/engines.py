"""Which engine integrates, where that is left open."""

from boltzkit.molecule import Molecule
from boltzkit.simulate.batched_engine import BatchedEngine
from boltzkit.simulate.dynamics import DynamicsConfig, Engine
from boltzkit.simulate.openmm_engine import OpenMMEngine, settled_platform
from boltzkit.simulate.recording import Tell

__all__ = ["make_engine", "settled"]

_MANY = 8
"""Trajectories from which on a batch is faster than one after the other."""


def settled(molecule: Molecule, config: DynamicsConfig, trajectories: int, tell: Tell) -> DynamicsConfig:
    """Return the settings with a named engine and platform; tells what was chosen."""
    if config.engine == "auto":
        batched = trajectories >= _MANY and not len(molecule.constraints)
        config = config.model_copy(update={"engine": "batched" if batched else "openmm"})
        tell(
            f"{trajectories} trajectories run {'at once, batched' if batched else 'one after the other, by OpenMM'}"
        )
    return settled_platform(molecule, config, tell) if config.engine == "openmm" else config


def make_engine(molecule: Molecule, temperature: float, config: DynamicsConfig, seed: int) -> Engine:
    """Return the engine of settled settings."""
    kind = OpenMMEngine if config.engine == "openmm" else BatchedEngine
    return kind(molecule, temperature, config, seed)
