"""A bias that grows: Gaussians summed on a periodic grid over one or two torsions, as an OpenMM force."""

import math
from collections.abc import Sequence
from functools import reduce
from typing import Any

import numpy as np
import openmm
import torch
from numpy.typing import NDArray
from openmm import unit
from torch import Tensor

from boltzkit.molecule import Molecule
from boltzkit.molecule.torsions import dihedral
from boltzkit.simulate.biased_dynamics import with_force

__all__ = ["GridBias"]

_TABLE = "table"


class GridBias:
    """A bias energy on a grid over torsions, smooth between its points by OpenMM's periodic splines.

    Args:
        molecule: that has the torsions.
        torsions: one or two rows of four atoms.
        values: kJ/mol at the angles −π + 2πi/bins, ``(bins,)`` or ``(bins, bins)``, the first torsion first.

    Attributes:
        values: as they are now.
        system: the molecule's System with the bias as one more force.
    """

    def __init__(self, molecule: Molecule, torsions: Sequence[Sequence[int]], values: Tensor) -> None:
        self._torsions, self.values = torch.tensor([list(row) for row in torsions]), values.clone()
        self._force = self._new_force()
        self.system = with_force(molecule, self._force)
        # A force belongs to one System: the referee, in double precision and with nothing else, has its own.
        self._own = self._new_force()
        self._referee = _alone(self._own, molecule.n_atoms)

    def _new_force(self) -> Any:
        rows = self._torsions.tolist()
        names = [f"torsion{place}" for place in range(len(rows))]
        # Collective variables, not a bond of many atoms: only here a new table costs no new compilation.
        force = openmm.CustomCVForce(f"{_TABLE}({', '.join(names)})")
        for name, row in zip(names, rows, strict=True):
            torsion = openmm.CustomTorsionForce("theta")
            torsion.addTorsion(*row, [])
            force.addCollectiveVariable(name, torsion)
        kind = openmm.Continuous1DFunction if len(rows) == 1 else openmm.Continuous2DFunction
        force.addTabulatedFunction(_TABLE, kind(*self._table(), True))
        return force

    def _table(self) -> tuple[Any, ...]:
        """Return the arguments of OpenMM's function: sizes, values with their ends repeated, limits."""
        closed = self.values
        for axis in range(closed.ndim):
            closed = torch.cat([closed, closed.narrow(axis, 0, 1)], dim=axis)
        sizes = tuple(closed.shape) if closed.ndim > 1 else ()
        # OpenMM wants the first variable to run fastest.
        flat = closed.permute(*reversed(range(closed.ndim))).reshape(-1).tolist()
        return *sizes, flat, *([-math.pi, math.pi] * closed.ndim)

    def angles(self, positions: Tensor) -> Tensor:
        """Return the torsions, ``(n, atoms, 3) -> (n, torsions)`` rad."""
        return dihedral(positions, self._torsions)

    def energy(self, positions: Tensor) -> NDArray[np.float64]:
        """Return the bias in kJ/mol, ``(n, atoms, 3) -> (n,)``, by OpenMM in double precision."""
        found = np.empty(len(positions))
        for place, x in enumerate(positions.double().numpy()):
            self._referee.setPositions(x)
            energy = self._referee.getState(energy=True).getPotentialEnergy()
            found[place] = energy.value_in_unit(unit.kilojoule_per_mole)
        return found

    def add(self, angles: Tensor, heights: Sequence[float], width: float, contexts: Sequence[Any]) -> None:
        """Add Gaussians at some angles, ``(n, torsions)``, and tell the Contexts of `system`."""
        grid = torch.arange(self.values.shape[0], dtype=torch.float64)
        grid = -math.pi + 2 * math.pi / len(grid) * grid
        for place, height in zip(angles, heights, strict=True):
            difference = grid - place.unsqueeze(-1)
            near = torch.atan2(difference.sin(), difference.cos())
            bumps = list(torch.exp(-0.5 * (near / width) ** 2))
            self.values += height * reduce(torch.outer, bumps[1:], bumps[0])
        for force, places in ((self._force, contexts), (self._own, (self._referee,))):
            force.getTabulatedFunction(0).setFunctionParameters(*self._table())
            for context in places:
                force.updateParametersInContext(context)


def _alone(force: Any, n_atoms: int) -> Any:
    """Return a Context in which there is nothing but the force, in double precision."""
    system = openmm.System()
    for _ in range(n_atoms):
        system.addParticle(1.0)
    system.addForce(force)
    return openmm.Context(
        system, openmm.VerletIntegrator(0.001), openmm.Platform.getPlatformByName("Reference")
    )
