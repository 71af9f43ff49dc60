"""CMAPTorsionForce: energies of two torsions from periodic maps."""

import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn

from boltzkit.energy.forcefield.bonded import torsion
from boltzkit.energy.forcefield.tabulated import SplineTable
from boltzkit.energy.forcefield.term import Geometry, Term, difference_matrix

__all__ = ["CMAPTorsions"]


class CMAPTorsions(Term):
    """E = Σ map(φ, ψ), a periodic bicubic spline through the map's grid."""

    def __init__(
        self,
        maps: Sequence[tuple[int, Sequence[float]]],
        torsions: Sequence[tuple[int, tuple[int, ...], tuple[int, ...]]],
        n_atoms: int,
    ) -> None:
        """Take (size, energies with φ fastest) per map, and (map, four atoms of φ, four atoms of ψ) per torsion."""
        super().__init__()
        self._used = sorted({index for index, _, _ in torsions})
        self.tables = nn.ModuleList(_periodic_table(*maps[index]) for index in self._used)
        for place, index in enumerate(self._used):
            members = [(a, b) for m, a, b in torsions if m == index]
            for which, quadruples in enumerate(zip(*members, strict=True)):
                for bond in range(3):
                    pairs = [(q[bond], q[bond + 1]) for q in quadruples]
                    self.constant(f"bond_{place}_{which}_{bond}", difference_matrix(pairs, n_atoms))

    def forward(self, geometry: Geometry) -> Tensor:
        """Sum over torsions of every map."""
        total = torch.zeros(geometry.x.shape[-1], dtype=geometry.x.dtype, device=geometry.x.device)
        for place, table in enumerate(self.tables):
            phi, psi = (self._angle(geometry, place, which) for which in range(2))
            total = total + table(phi, psi).sum(0)
        return total

    def _angle(self, geometry: Geometry, place: int, which: int) -> Tensor:
        bonds = [
            torch.matmul(self.get_buffer(f"bond_{place}_{which}_{bond}"), geometry.x) for bond in range(3)
        ]
        cosine, sine = torsion(*bonds)
        # Maps start at 0: the angle is taken in [0, 2π).
        value = torch.atan2(sine, cosine)
        return torch.where(value < 0, value + 2 * math.pi, value)


def _periodic_table(size: int, energies: Sequence[float]) -> SplineTable:
    grid = np.asarray(energies, dtype=np.float64).reshape(size, size).T
    closed = np.pad(grid, ((0, 1), (0, 1)), mode="wrap")
    return SplineTable(closed, [(0.0, 2 * math.pi)] * 2, periodic=True)
