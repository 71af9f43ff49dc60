"""Short trajectories from chosen structures: cheap, rich in rare basins, and biased."""

import math
from pathlib import Path

from pydantic import NonNegativeFloat, PositiveInt
from torch import Tensor

from boltzkit.molecule import Backbone, Molecule
from boltzkit.simulate.minima import MinimaSearch, find_minima
from boltzkit.simulate.molecular_dynamics import Timeline, TrajectoryRun
from boltzkit.simulate.recording import Tell, record
from boltzkit.simulate.starts import read_starts

__all__ = ["SeededSimulation", "simulate_seeded"]


class SeededSimulation(Timeline):
    """Trajectories too short to leave their basin, several from each of some structures.

    The defaults are those of the paper: 20 trajectories of 13,750 steps from each of four minima, the first 1,250 steps
    left out and every further one stored.
    """

    starts: Path | None = None
    """PDB or mmCIF file with models, or trajectory, of structures to start from; minima are looked for without one."""
    repeats: PositiveInt = 20
    """Trajectories from each structure, with their own velocities and noise."""
    search: MinimaSearch = MinimaSearch()
    """How minima are looked for."""
    equilibration: NonNegativeFloat = 1.25
    """Time before the first sample, ps."""
    every: PositiveInt = 1
    """Time steps from one stored frame to the next."""
    segment: PositiveInt = 1250
    """Frames of each trajectory that are stored at a time; at most so much is lost by a kill."""

    @property
    def title(self) -> str:
        """How manifests call it."""
        return "short trajectories from chosen structures"

    @property
    def bias(self) -> str:
        """Why the samples are not of the Boltzmann distribution."""
        return (
            "short trajectories from chosen structures: how often a basin occurs follows from the number of starts in "
            "it, not from its Boltzmann weight"
        )


def simulate_seeded(molecule: Molecule, config: SeededSimulation, out: Path, tell: Tell = print) -> None:
    """Simulate into a dataset folder that says it is biased; goes on where it stopped."""

    def starts(tell: Tell) -> Tensor:
        if config.starts is None:
            structures = find_minima(molecule, config.search)
        else:
            structures = read_starts(config.starts, molecule)
        tell(
            f"{config.repeats} trajectories from each of {len(structures)} structures{_where(molecule, structures)}"
        )
        return structures.repeat_interleave(config.repeats, dim=0)

    record(molecule, config, TrajectoryRun(molecule, config, starts), out, tell)


def _where(molecule: Molecule, structures: Tensor) -> str:
    """Return φ and ψ of structures in words, nothing for what is no peptide."""
    backbone = Backbone.of(molecule.topology)
    if not backbone.names:
        return ""
    angles = (backbone.angles(structures) * (180 / math.pi)).round().int().tolist()
    pairs = (" ".join(f"({phi}°, {psi}°)" for phi, psi in structure) for structure in angles)
    return f" at (φ, ψ) = {'; '.join(pairs)}"
