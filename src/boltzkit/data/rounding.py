"""Coordinates that a file format has rounded, and what that does to energies."""

import numpy as np
from numpy.typing import NDArray

from boltzkit.data.energies import PotentialEnergy

__all__ = ["energy_error", "rounding_step"]

_STEPS = (1e-2, 1e-3, 1e-4)
_FRAMES = 200


def rounding_step(positions: NDArray[np.float32]) -> float:
    """Return the decimal step in nm of which all coordinates are multiples, 0 when there is none.

    >>> rounding_step(np.array([0.123, 4.561], dtype=np.float32)), rounding_step(np.array([0.1234567]))
    (0.001, 0.0)
    """
    some = positions[:_FRAMES]
    finite = some[np.isfinite(some)].astype(np.float64)
    for step in _STEPS:
        multiples = finite / step
        # A hundredth of a step is more than single precision loses.
        if len(finite) and np.abs(multiples - multiples.round()).max() < 0.01:
            return step
    return 0.0


def energy_error(positions: NDArray[np.float32], step: float, potential: PotentialEnergy) -> float:
    """Return the standard deviation, kJ/mol, that rounding gives the energy: σ_E² = ⟨|F|²⟩ δ²/12, to first order."""
    if not step:
        return 0.0
    _, forces = potential.with_forces(positions[:_FRAMES])
    squared = np.square(forces).sum((1, 2))
    return float(np.sqrt(np.mean(squared[np.isfinite(squared)]) * step**2 / 12))
