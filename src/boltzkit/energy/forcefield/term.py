"""The contract of every force-field term, and the geometry they share.

Coordinates are laid out ``(3, atoms, batch)`` and pair quantities ``(pairs, batch)``: the batch is innermost, so
that every operation is a loop over configurations with the same atoms, which vectorises whatever the molecule.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

__all__ = ["Geometry", "PairTable", "Term", "difference_matrix"]

_CLOSEST = 1e-12
"""nm²: distances below 10⁻⁶ nm count as 10⁻⁶ nm, so that 1/r stays finite for atoms on top of each other."""


class PairTable(nn.Module):
    """All pairs i < j of a molecule, and the moves between atoms and pairs.

    Every move is a product with a constant matrix, and so is its gradient, where an index would scatter, which no
    CPU vectorises. The products cost pairs × atoms, little beside the pair energies of molecules up to some
    hundred atoms.
    """

    i: Tensor
    j: Tensor
    first_matrix: Tensor
    second_matrix: Tensor
    difference: Tensor

    def __init__(self, n_atoms: int) -> None:
        super().__init__()
        i, j = torch.triu_indices(n_atoms, n_atoms, offset=1)
        one = torch.eye(n_atoms, dtype=torch.float64)
        matrices = {"first_matrix": one[i], "second_matrix": one[j], "difference": one[i] - one[j]}
        for name, value in {"i": i, "j": j, **matrices}.items():
            self.register_buffer(name, value, persistent=False)

    def separation(self, x: Tensor) -> Tensor:
        """Return x_i − x_j of every pair, ``(3, atoms, batch) -> (3, pairs, batch)``."""
        return torch.matmul(self.difference, x)

    def first(self, atoms: Tensor) -> Tensor:
        """Return the value of each pair's first atom, ``(atoms, batch) -> (pairs, batch)``."""
        return torch.matmul(self.first_matrix, atoms)

    def second(self, atoms: Tensor) -> Tensor:
        """Return the value of each pair's second atom."""
        return torch.matmul(self.second_matrix, atoms)

    def gather(self, to_first: Tensor, to_second: Tensor) -> Tensor:
        """Sum to each atom what its pairs give it, ``(pairs, batch) -> (atoms, batch)``."""
        return torch.matmul(self.first_matrix.T, to_first) + torch.matmul(self.second_matrix.T, to_second)


class Geometry(NamedTuple):
    """One batch of configurations with the distances of all pairs, computed once and shared by terms."""

    x: Tensor
    """Positions in nm, ``(3, atoms, batch)``."""
    pairs: PairTable
    """The pairs and their moves."""
    squared: Tensor
    """r², ``(pairs, batch)``."""
    distance: Tensor
    """r."""
    inverse: Tensor
    """1/r."""

    @classmethod
    def of(cls, x: Tensor, pairs: PairTable) -> "Geometry":
        """Measure all pairs of ``(3, atoms, batch)`` positions."""
        separation = pairs.separation(x)
        squared = (separation * separation).sum(0).clamp(min=_CLOSEST)
        distance = squared.sqrt()
        return cls(x, pairs, squared, distance, 1 / distance)


class Term(nn.Module, ABC):
    """One force of an OpenMM System as a batched, differentiable energy."""

    @abstractmethod
    def forward(self, geometry: Geometry) -> Tensor:
        """Return the energy in kJ/mol, ``(batch,)``."""

    def constant(self, name: str, values: object) -> None:
        """Keep parameters with the module: they follow its device and precision."""
        # Python floats would become float32 first and lose digits that the parity with OpenMM shows.
        self.register_buffer(name, torch.as_tensor(values, dtype=torch.float64), persistent=False)


def difference_matrix(pairs: Sequence[tuple[int, int]], n_atoms: int) -> Tensor:
    """Return the matrix that maps atoms to x_j − x_i for each pair (i, j), ``(pairs, atoms)``.

    A product with a constant matrix instead of an index: its backward is a product too, where an index would
    scatter.
    """
    matrix = torch.zeros(len(pairs), n_atoms, dtype=torch.float64)
    for row, (i, j) in enumerate(pairs):
        matrix[row, i] -= 1
        matrix[row, j] += 1
    return matrix
