"""Energies as datasets store them: kJ/mol of the unbiased potential, in double precision."""

import numpy as np
import torch
from numpy.typing import NDArray

from boltzkit.energy.constants import BOLTZMANN
from boltzkit.molecule import Molecule

__all__ = ["PotentialEnergy"]

_CHUNK = 16_384


class PotentialEnergy:
    """The potential energy of a molecule, kJ/mol; NaN or infinite where there is none.

    In double precision and without regularisation: a stored label is the potential's own number, not a stand-in.

    Args:
        molecule: the molecule; its energy is compared with OpenMM's once.
    """

    def __init__(self, molecule: Molecule) -> None:
        # Energies in kJ/mol do not depend on the temperature by which they were divided.
        temperature = 300.0
        self._scale = BOLTZMANN * temperature
        self._reduced = molecule.energy(temperature, precision=torch.float64, regularised=False)

    def __call__(self, positions: NDArray[np.float32]) -> NDArray[np.float64]:
        """Return energies, ``(n, atoms, 3)`` nm -> ``(n,)`` kJ/mol."""
        parts = [self._reduced(torch.from_numpy(part).double()).numpy() for part in _chunks(positions)]
        return np.concatenate([np.empty(0), *parts]) * self._scale

    def with_forces(self, positions: NDArray[np.float32]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return energies ``(n,)`` kJ/mol and forces ``(n, atoms, 3)`` kJ/mol/nm."""
        energies, forces = [np.empty(0)], [np.empty((0, *positions.shape[1:]))]
        for part in _chunks(positions):
            energy, gradient = self._reduced.energy_and_gradient(torch.from_numpy(part).double())
            energies.append(energy.numpy() * self._scale)
            forces.append(gradient.numpy() * -self._scale)
        return np.concatenate(energies), np.concatenate(forces)


def _chunks(positions: NDArray[np.float32]) -> list[NDArray[np.float32]]:
    return [positions[start : start + _CHUNK] for start in range(0, len(positions), _CHUNK)]
