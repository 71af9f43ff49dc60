"""CustomCompoundBondForce: formulas of several distances, angles and dihedrals at once."""

import re
from collections.abc import Sequence

import torch
from torch import Tensor

from boltzkit.energy.forcefield.bonded import angle, torsion
from boltzkit.energy.forcefield.custom import CustomTerm, Parameters
from boltzkit.energy.forcefield.formula import Formula
from boltzkit.energy.forcefield.term import Geometry, difference_matrix
from boltzkit.errors import UserError

__all__ = ["CustomCompound", "flattened"]

_ARITY = {"distance": 2, "angle": 3, "dihedral": 4}
_MEASURE = re.compile(r"\b(distance|angle|dihedral)\s*\(([^()]*)\)")
_SEPARATOR = "'"
"""Stands in no name that an expression of OpenMM has."""
_COORDINATE = re.compile(r"[xyz][1-9]\d*")


def flattened(text: str, n_points: int) -> tuple[str, list[str]]:
    """Return an expression with a variable for each distance, angle and dihedral, and these variables.

    >>> flattened("k*(distance(p1, p2)-r0)*angle(p1,p2,p3)", 3)
    ("k*(distance'1'2-r0)*angle'1'2'3", ["distance'1'2", "angle'1'2'3"])

    Raises:
        UserError: it speaks of more points than there are.
    """
    found: dict[str, None] = {}

    def name(match: re.Match[str]) -> str:
        kind, points = match[1], [point.strip() for point in match[2].split(",")]
        if len(points) != _ARITY[kind] or not all(re.fullmatch(r"p[1-9]\d*", point) for point in points):
            return match[0]  # the parser says what is wrong with it
        if beyond := [point for point in points if int(point[1:]) > n_points]:
            raise UserError(f"The expression '{text}' speaks of {beyond[0]}, but has {n_points} particles.")
        variable = _SEPARATOR.join([kind, *(point[1:] for point in points)])
        found[variable] = None
        return variable

    return _MEASURE.sub(name, text), list(found)


class CustomCompound(CustomTerm):
    """E = Σ E(distances, angles, dihedrals, coordinates; parameters) over groups of atoms.

    Args:
        formula: of the variables that `flattened` makes, and of coordinates such as x1.
        groups: atoms of each group, p1 first.
        parameters: of each group.
        n_atoms: of the molecule.
    """

    def __init__(
        self, formula: Formula, groups: Sequence[Sequence[int]], parameters: Parameters, n_atoms: int
    ) -> None:
        super().__init__(formula, parameters)
        self._groups, self._measures = len(groups), list[tuple[str, str, int]]()
        for variable in sorted(formula.expression.variables):
            if variable in parameters:
                continue
            if _COORDINATE.fullmatch(variable):
                atoms = [group[int(variable[1:]) - 1] for group in groups]
                self.constant(f"{variable}_0", torch.eye(n_atoms, dtype=torch.float64)[atoms])
                self._measures.append((variable, variable[0], 1))
                continue
            kind, *points = variable.split(_SEPARATOR)
            places = [int(point) - 1 for point in points]
            # An angle is that between the vectors from its apex; the others are of successive vectors.
            steps = [(1, 0), (1, 2)] if kind == "angle" else [(i, i + 1) for i in range(len(places) - 1)]
            for number, (a, b) in enumerate(steps):
                pairs = [(group[places[a]], group[places[b]]) for group in groups]
                self.constant(f"{variable}_{number}", difference_matrix(pairs, n_atoms))
            self._measures.append((variable, kind, len(steps)))

    def forward(self, geometry: Geometry) -> Tensor:
        """Sum over groups."""
        values = self.parameters_by_name()
        for variable, kind, n in self._measures:
            vectors = [torch.matmul(self.get_buffer(f"{variable}_{i}"), geometry.x) for i in range(n)]
            values[variable] = _measured(kind, vectors)
        energy: Tensor = self.formula(values)
        return energy.expand(self._groups, geometry.x.shape[-1]).sum(0)


def _measured(kind: str, vectors: Sequence[Tensor]) -> Tensor:
    """Return what a variable stands for, ``(groups, batch)``."""
    if kind == "distance":
        return (vectors[0] * vectors[0]).sum(0).sqrt()
    if kind == "angle":
        return angle(vectors[0], vectors[1])
    if kind == "dihedral":
        cosine, sine = torsion(vectors[0], vectors[1], vectors[2])
        return torch.atan2(sine, cosine)
    return vectors[0]["xyz".index(kind)]
