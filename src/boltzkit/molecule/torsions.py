"""Dihedral angles of a backbone: which they are, what they should be, and turning them there."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from boltzkit.molecule.graph import neighbours, reachable

__all__ = ["Torsions", "backbone_torsions", "dihedral", "turned_about"]

_PHI, _PSI, _TRANS = -2.4, 2.4, math.pi


@dataclass(frozen=True)
class Torsions:
    """Dihedral angles with the values they should have.

    Attributes:
        rows: four atoms each, ``(torsions, 4)``.
        values: radians, ``(torsions,)``.
        beyond: the atoms that turn with each, on the far side of its middle bond; none where a ring closes.
    """

    rows: Tensor
    values: Tensor
    beyond: tuple[Tensor, ...]

    @property
    def trans(self) -> Tensor:
        """Rows of the dihedrals that should be trans: the peptide bonds."""
        return self.rows[self.values == _TRANS]

    def off(self, positions: Tensor) -> Tensor:
        """Σ (1 − cos(φ − φ₀)), zero when every dihedral has its value."""
        return (1 - torch.cos(dihedral(positions, self.rows) - self.values)).sum()

    def turned(self, positions: Tensor) -> Tensor:
        """Return a structure with every dihedral turned to its value, rigidly, but for those in rings."""
        positions = positions.clone()
        for row, value, atoms in zip(self.rows, self.values, self.beyond, strict=True):
            angle = value - dihedral(positions, row[None])[0]
            positions = turned_about(positions, (int(row[1]), int(row[2])), atoms, angle)
        return positions


def turned_about(x: Tensor, bond: tuple[int, int], atoms: Tensor, angle: Tensor) -> Tensor:
    """Return configurations ``(..., atoms, 3)`` with some atoms turned about a bond, by one angle each, ``(...)``."""
    origin = x[..., bond[1], :].unsqueeze(-2)
    axis = origin - x[..., bond[0], :].unsqueeze(-2)
    axis = axis / axis.norm(dim=-1, keepdim=True)
    arms = x[..., atoms, :] - origin
    along = (arms * axis).sum(-1, keepdim=True) * axis
    across = torch.linalg.cross(axis.expand_as(arms), arms)
    cosine, sine = (f.unsqueeze(-1).unsqueeze(-1) for f in (angle.cos(), angle.sin()))
    result = x.clone()
    result[..., atoms, :] = origin + along + cosine * (arms - along) + sine * across
    return result


def dihedral(positions: Tensor, rows: Tensor) -> Tensor:
    """Return the dihedral angles (−π, π] of rows of four atoms, ``(..., atoms, 3) -> (..., rows)``.

    IUPAC's sign, trans is π.
    """
    i, j, k, m = (positions[..., rows[:, column], :] for column in range(4))
    middle = k - j
    before, after = torch.linalg.cross(j - i, middle), torch.linalg.cross(middle, m - k)
    sine = middle.norm(dim=-1) * ((j - i) * after).sum(-1)
    return torch.atan2(sine, (before * after).sum(-1))


def backbone_torsions(topology: Any) -> Torsions:
    """Return ω, φ and ψ of a peptide chain with their values in an extended chain of trans bonds."""
    found = list(_backbone(topology))
    near = neighbours(topology)
    return Torsions(
        rows=torch.tensor([row for row, _ in found], dtype=torch.int64).reshape(-1, 4),
        values=torch.tensor([value for _, value in found], dtype=torch.float64),
        beyond=tuple(_beyond(row[1], row[2], near) for row, _ in found),
    )


def _backbone(topology: Any) -> Iterator[tuple[tuple[int, int, int, int], float]]:
    residues = [{atom.name: atom.index for atom in residue.atoms()} for residue in topology.residues()]
    for before, after in pairwise(residues):
        bond = before["C"], after["N"]
        start, end = before.get("CA", before.get("CH3")), after.get("CA", after.get("CH3"))
        if start is not None and end is not None:
            yield (start, *bond, end), _TRANS
        if "CA" in before and "N" in before:
            yield (before["N"], before["CA"], *bond), _PSI
        if "CA" in after and "C" in after:
            yield (*bond, after["CA"], after["C"]), _PHI


def _beyond(near_end: int, far_end: int, near: list[list[int]]) -> Tensor:
    """Return the atoms that hang on the far end of a bond, or none when they lead back to its near end."""
    reached = reachable(far_end, near, without=(near_end, far_end))
    return torch.tensor([] if near_end in reached else sorted(reached), dtype=torch.int64)
