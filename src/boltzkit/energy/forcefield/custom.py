"""Custom forces on bonds, angles, torsions, single atoms and pairs."""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from boltzkit.energy.forcefield.bonded import angle, torsion
from boltzkit.energy.forcefield.formula import Formula
from boltzkit.energy.forcefield.term import Geometry, Term, difference_matrix

__all__ = [
    "CustomAngles",
    "CustomBonds",
    "CustomExternal",
    "CustomPairs",
    "CustomTerm",
    "CustomTorsions",
    "Parameters",
    "pair_mask",
]

Parameters = Mapping[str, Sequence[float]]
"""Name -> one value per bond, angle, torsion or atom."""


class CustomTerm(Term):
    """A formula with parameters of its own for each row of a table."""

    def __init__(self, formula: Formula, parameters: Parameters) -> None:
        super().__init__()
        self.formula = formula
        self._names = list(parameters)
        for name, values in parameters.items():
            self.constant(f"parameter_{name}", torch.tensor(values, dtype=torch.float64).unsqueeze(-1))

    def parameter(self, name: str) -> Tensor:
        """Return one parameter, ``(rows, 1)``."""
        return self.get_buffer(f"parameter_{name}")

    def parameters_by_name(self) -> dict[str, Tensor]:
        """Return all parameters, each ``(rows, 1)``."""
        return {name: self.parameter(name) for name in self._names}


class CustomBonds(CustomTerm):
    """E = Σ E(r; parameters)."""

    matrix: Tensor

    def __init__(
        self, formula: Formula, pairs: Sequence[tuple[int, int]], parameters: Parameters, n_atoms: int
    ) -> None:
        super().__init__(formula, parameters)
        self.constant("matrix", difference_matrix(pairs, n_atoms))

    def forward(self, geometry: Geometry) -> Tensor:
        """Sum over bonds."""
        bond = torch.matmul(self.matrix, geometry.x)
        r = (bond * bond).sum(0).sqrt()
        energy: Tensor = self.formula({"r": r, **self.parameters_by_name()})
        return energy.expand_as(r).sum(0)


class CustomAngles(CustomTerm):
    """E = Σ E(theta; parameters), the apex in the middle."""

    first: Tensor
    second: Tensor

    def __init__(
        self, formula: Formula, triples: Sequence[tuple[int, int, int]], parameters: Parameters, n_atoms: int
    ) -> None:
        super().__init__(formula, parameters)
        self.constant("first", difference_matrix([(j, i) for i, j, _ in triples], n_atoms))
        self.constant("second", difference_matrix([(j, k) for _, j, k in triples], n_atoms))

    def forward(self, geometry: Geometry) -> Tensor:
        """Sum over angles."""
        theta = angle(torch.matmul(self.first, geometry.x), torch.matmul(self.second, geometry.x))
        energy: Tensor = self.formula({"theta": theta, **self.parameters_by_name()})
        return energy.expand_as(theta).sum(0)


class CustomTorsions(CustomTerm):
    """E = Σ E(theta; parameters), theta in [−π, π]."""

    first: Tensor
    middle: Tensor
    last: Tensor

    def __init__(
        self,
        formula: Formula,
        quadruples: Sequence[tuple[int, int, int, int]],
        parameters: Parameters,
        n_atoms: int,
    ) -> None:
        super().__init__(formula, parameters)
        for name, (i, j) in {"first": (0, 1), "middle": (1, 2), "last": (2, 3)}.items():
            self.constant(name, difference_matrix([(q[i], q[j]) for q in quadruples], n_atoms))

    def forward(self, geometry: Geometry) -> Tensor:
        """Sum over torsions."""
        x = geometry.x
        cosine, sine = torsion(
            torch.matmul(self.first, x), torch.matmul(self.middle, x), torch.matmul(self.last, x)
        )
        theta = torch.atan2(sine, cosine)
        energy: Tensor = self.formula({"theta": theta, **self.parameters_by_name()})
        return energy.expand_as(theta).sum(0)


class CustomExternal(CustomTerm):
    """E = Σ E(x, y, z; parameters) over some atoms."""

    selection: Tensor

    def __init__(self, formula: Formula, atoms: Sequence[int], parameters: Parameters, n_atoms: int) -> None:
        super().__init__(formula, parameters)
        self.constant("selection", torch.eye(n_atoms, dtype=torch.float64)[list(atoms)])

    def forward(self, geometry: Geometry) -> Tensor:
        """Sum over the atoms."""
        x, y, z = torch.matmul(self.selection, geometry.x)
        energy: Tensor = self.formula({"x": x, "y": y, "z": z, **self.parameters_by_name()})
        return energy.expand_as(x).sum(0)


class CustomPairs(CustomTerm):
    """E = Σ_{i<j} E(r; parameters of i as name1, of j as name2), without the excluded pairs."""

    mask: Tensor

    def __init__(
        self, formula: Formula, parameters: Parameters, exclusions: Sequence[tuple[int, int]], n_atoms: int
    ) -> None:
        super().__init__(formula, parameters)
        self.constant("mask", pair_mask(n_atoms, exclusions))

    def forward(self, geometry: Geometry) -> Tensor:
        """Sum over pairs."""
        values: dict[str, Tensor] = {"r": geometry.distance}
        pairs = geometry.pairs
        for name, value in self.parameters_by_name().items():
            values |= {f"{name}1": value[pairs.i], f"{name}2": value[pairs.j]}
        energy = self.formula(values).expand_as(geometry.distance)
        return torch.where(self.mask > 0, energy, 0.0).sum(0)


def pair_mask(n_atoms: int, exclusions: Sequence[tuple[int, int]]) -> Tensor:
    """Return one for each pair i < j that is not excluded, zero for the others, ``(pairs, 1)``."""
    mask = torch.ones(n_atoms, n_atoms, dtype=torch.float64)
    for i, j in exclusions:
        mask[min(i, j), max(i, j)] = 0
    rows, columns = torch.triu_indices(n_atoms, n_atoms, offset=1)
    return mask[rows, columns].unsqueeze(-1)
