"""Whether a dataset is what it says: the result of reading it all again."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from boltzkit.data.energies import PotentialEnergy
from boltzkit.errors import UserError
from boltzkit.molecule import Molecule

__all__ = ["Verification", "compare_energies"]

_TOLERANCE = 0.02
"""kJ/mol: labels may have been computed before positions were rounded to single precision, or"""
_RELATIVE = 1e-4
"""times the energy."""


@dataclass(frozen=True)
class Verification:
    """What a thorough check found.

    Attributes:
        folder: the dataset.
        n_files: files whose checksums were compared.
        problems: one sentence for each damaged file or wrong energy; empty when all is well.
        n_energies: energies that were computed anew.
    """

    folder: Path
    n_files: int
    problems: tuple[str, ...]
    n_energies: int = 0

    def require(self) -> None:
        """Raise an error that names every problem."""
        if self.problems:
            raise UserError(f"{self.folder} is damaged: {'; '.join(self.problems)}.")


def compare_energies(
    molecule: Molecule, positions: NDArray[np.float32], stored: NDArray[np.float64]
) -> dict[int, str]:
    """Return the rows whose stored energy is not that of their positions, each with what is wrong."""
    computed = PotentialEnergy(molecule)(positions)
    allowed = np.maximum(_TOLERANCE, _RELATIVE * np.abs(computed))
    wrong = np.flatnonzero(~(np.abs(stored - computed) <= allowed))
    return {int(i): f"says {stored[i]:.3f} kJ/mol where the molecule has {computed[i]:.3f}" for i in wrong}
