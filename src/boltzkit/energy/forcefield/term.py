"""The contract of every force-field term, and the geometry they share.

Coordinates are laid out ``(3, atoms, batch)`` and pair quantities ``(pairs, batch)``: the batch is innermost, so
that every operation is a loop over configurations with the same atoms, which vectorises whatever the molecule.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

__all__ = ["Geometry", "PairTable", "Term", "difference_matrix"]

_CLOSEST = 1e-12
"""nm²: distances below 10⁻⁶ nm count as 10⁻⁶ nm, so that 1/r stays finite for atoms on top of each other."""


class PairTable(nn.Module):
    """All pairs i < j of a molecule, and the two moves between atoms and pairs.

    `first` and `second` copy atoms to pairs; `gather` sums pairs to atoms. Each is the other's transpose, so that
    each one's gradient is the other: no operation ever scatters, which no CPU vectorises.
    """

    i: Tensor
    j: Tensor
    row: Tensor
    upper: Tensor
    sign: Tensor

    def __init__(self, n_atoms: int) -> None:
        super().__init__()
        i, j = torch.triu_indices(n_atoms, n_atoms, offset=1)
        row = torch.zeros(n_atoms, n_atoms, dtype=torch.int64)
        row[i, j] = row[j, i] = torch.arange(len(i))
        for name, index in {"i": i, "j": j, "row": row}.items():
            self.register_buffer(name, index, persistent=False)
        upper = torch.ones(n_atoms, n_atoms, dtype=torch.bool).triu(diagonal=1)
        self.register_buffer("upper", upper, persistent=False)
        sign = upper.double() - upper.T.double()
        self.register_buffer("sign", sign.unsqueeze(-1), persistent=False)

    def first(self, atoms: Tensor) -> Tensor:
        """Return the value of each pair's first atom, ``(..., atoms, batch) -> (..., pairs, batch)``."""
        picked: Tensor = _Pick.apply(atoms, self, True)  # type: ignore[no-untyped-call]
        return picked

    def second(self, atoms: Tensor) -> Tensor:
        """Return the value of each pair's second atom."""
        picked: Tensor = _Pick.apply(atoms, self, False)  # type: ignore[no-untyped-call]
        return picked

    def gather(self, to_first: Tensor, to_second: Tensor) -> Tensor:
        """Sum to each atom what its pairs give it, ``(..., pairs, batch) -> (..., atoms, batch)``."""
        gathered: Tensor = _Gather.apply(to_first, to_second, self)  # type: ignore[no-untyped-call]
        return gathered

    def sum_to_atoms(self, to_first: Tensor | None, to_second: Tensor | None) -> Tensor:
        """The gathering itself: atom a reads row (a, b) of each b, as first atom if a < b, as second if a > b."""
        upper = self.upper.unsqueeze(-1)
        lower = self.upper.T.unsqueeze(-1)
        total: Tensor | None = None
        for values, mask in ((to_first, upper), (to_second, lower)):
            if values is not None:
                rows = torch.where(mask, values[..., self.row, :], 0.0).sum(-2)
                total = rows if total is None else total + rows
        assert total is not None
        return total


class _Pick(torch.autograd.Function):
    """Atoms to one side of the pairs."""

    @staticmethod
    def forward(atoms: Tensor, pairs: PairTable, first: bool) -> Tensor:
        return atoms[..., pairs.i if first else pairs.j, :]

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        _, ctx.pairs, ctx.first = inputs

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        return ctx.pairs.sum_to_atoms(*((grad, None) if ctx.first else (None, grad))), None, None


class _Gather(torch.autograd.Function):
    """Both sides of the pairs to atoms."""

    @staticmethod
    def forward(to_first: Tensor, to_second: Tensor, pairs: PairTable) -> Tensor:
        return pairs.sum_to_atoms(to_first, to_second)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.pairs = inputs[2]

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, None]:
        return grad[..., ctx.pairs.i, :], grad[..., ctx.pairs.j, :], None


class _Separate(torch.autograd.Function):
    """Positions to x_i − x_j; one signed gathering in its gradient where two picks would take two."""

    @staticmethod
    def forward(x: Tensor, pairs: PairTable) -> Tensor:
        return x[:, pairs.i] - x[:, pairs.j]

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.pairs = inputs[1]

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        return (grad[:, ctx.pairs.row] * ctx.pairs.sign.to(grad.dtype)).sum(-2), None


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
        separation: Tensor = _Separate.apply(x, pairs)  # type: ignore[no-untyped-call]
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
