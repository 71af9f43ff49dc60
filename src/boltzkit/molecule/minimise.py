"""Energy minimisation by OpenMM on its Reference platform: double precision, one thread, the same every time."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import openmm
import torch
from numpy.typing import NDArray
from openmm import unit
from torch import Tensor

from boltzkit.errors import UserError

__all__ = ["Minimum", "minimise"]

# Root mean square force in kJ/mol/nm that ends the descent. Thermal forces at 300 K are of the order of 1000.
_TOLERANCE = 0.5
_RESTARTS = 20
# Of the minimiser, each time: a peptide takes some hundred. Without a limit it walks for ever once an energy is NaN.
_ITERATIONS = 10_000
_FORCE = unit.kilojoule_per_mole / unit.nanometer


@dataclass(frozen=True)
class Minimum:
    """A structure at a local minimum of the energy.

    Attributes:
        positions: ``(atoms, 3)`` nm, float64.
        energy: potential energy, kJ/mol.
        residual_force: root mean square of the force components that are left, kJ/mol/nm, without the part
            that constraints take up.
    """

    positions: Tensor
    energy: float
    residual_force: float


def minimise(system: Any, positions: Tensor, name: str) -> Minimum:
    """Walk downhill from a structure to the nearest minimum, with the System's constraints kept.

    Raises:
        UserError: the energy is not finite at the start or at the end.
    """
    integrator = openmm.VerletIntegrator(0.001)
    integrator.setConstraintTolerance(1e-8)
    try:
        context = openmm.Context(system, integrator, openmm.Platform.getPlatformByName("Reference"))
    except openmm.OpenMMException as error:
        raise UserError(f"{name}: OpenMM cannot use this System: {error}.") from error
    context.setPositions(positions.numpy())
    _finite_energy(context, name, "the given structure")
    # The minimiser gives up when its line search fails, far from a minimum; started afresh it goes on.
    for _ in range(_RESTARTS):
        openmm.LocalEnergyMinimizer.minimize(context, _TOLERANCE, _ITERATIONS)
        energy = _finite_energy(context, name, "the minimised structure")
        found, residual = _structure_and_force(context)
        if residual <= _TOLERANCE:
            break
    return Minimum(torch.from_numpy(found), energy, residual)


def _structure_and_force(context: Any) -> tuple[NDArray[np.float64], float]:
    state = context.getState(positions=True, forces=True)
    positions = np.array(state.getPositions(asNumpy=True).value_in_unit(unit.nanometer))
    forces = np.array(state.getForces(asNumpy=True).value_in_unit(_FORCE))
    return positions, float(np.sqrt(np.mean(_free_part(context.getSystem(), positions, forces) ** 2)))


def _finite_energy(context: Any, name: str, where: str) -> float:
    energy = context.getState(energy=True).getPotentialEnergy().value_in_unit(unit.kilojoule_per_mole)
    if not np.isfinite(energy):
        raise UserError(
            f"{name}: the energy of {where} is not finite: check it for atoms on top of each other."
        )
    return float(energy)


def _free_part(
    system: Any, positions: NDArray[np.float64], forces: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return forces without the components along the gradients of the constrained distances."""
    normals = np.zeros((system.getNumConstraints(), *positions.shape))
    for row in range(len(normals)):
        a, b, _ = system.getConstraintParameters(row)
        normals[row, a] = positions[a] - positions[b]
        normals[row, b] = -normals[row, a]
    flat = normals.reshape(len(normals), forces.size)
    multipliers = np.linalg.lstsq(flat.T, forces.ravel(), rcond=None)[0]
    free: NDArray[np.float64] = forces.ravel() - multipliers @ flat
    return free
