"""The automatic z-matrix: from which placed atoms every atom of a molecular graph is placed.

1. Three seeds: a middle atom as central in the graph as can be, with two of its neighbours, not on one line.
2. The tree grows from them, bond by bond: bonds of a named backbone first, then by depth; of the atoms around one
   parent the one that carries most of the molecule first, hydrogens last. The parent is the bond reference.
3. The angle reference is the placed atom nearest to the parent in the graph, the earliest placed among equals: as a
   rule the parent's own parent.
4. The torsion reference is another placed neighbour of the parent if there is one, so that only the first atom around
   a parent turns and the others keep a nearly constant torsion to it; else the atom nearest to the angle reference.
5. Near-linear references, judged in the reference structure, are passed over for the next nearest, bonded or not.
"""

import heapq
from dataclasses import dataclass
from itertools import combinations, product
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse.csgraph import shortest_path
from torch import Tensor

from boltzkit.coordinates.frames import Levels
from boltzkit.errors import UserError
from boltzkit.molecule.graph import neighbours, reachable

__all__ = ["ZMatrix", "build_zmatrix"]

# Names along the backbones of peptides and nucleic acids; the last one bonds to the first of the next residue.
_BACKBONES = (("N", "CA", "C"), ("P", "O5'", "C5'", "C4'", "C3'", "O3'"))
_BENT = 0.4
"""Sine of the angle (24° from straight) above which references are taken as they come."""
_BARELY_BENT = 0.1
"""Sine (6° from straight) below which no references are good enough."""


@dataclass(frozen=True, eq=False)
class ZMatrix:
    """Rows (atom, bond, angle and torsion reference), level by level: references always come before.

    Attributes:
        rows: ``(atoms, 4)``, int64; −1 stands for the references that the first three atoms lack.
    """

    rows: Tensor

    @property
    def n_atoms(self) -> int:
        """Number of atoms."""
        return len(self.rows)


def build_zmatrix(topology: Any, positions: Tensor, name: str = "the molecule") -> ZMatrix:
    """Choose references for every atom; the same graph, names and structure give the same z-matrix.

    Args:
        topology: OpenMM Topology; elements, bonds and atom names are used.
        positions: a sound structure, best the minimised one, ``(atoms, 3)`` nm.
        name: how messages call the molecule.

    Raises:
        UserError: the molecule is in pieces, all on one line, or a single atom.
    """
    graph = _Graph.of(topology, positions, name)
    if len(graph.near) == 2:
        return ZMatrix(torch.tensor([[0, -1, -1, -1], [1, 0, -1, -1]]))
    first, middle, third = _seeds(graph, name)
    rows = [(first, -1, -1, -1), (middle, first, -1, -1), (third, middle, first, -1)]
    order = {first: 0, middle: 1, third: 2}
    for atom, parent in _grown(graph, first, middle, third):
        rows.append((atom, parent, *_references(graph, atom, parent, order, name)))
        order[atom] = len(order)
    levels = Levels.of([list(row) for row in rows]).levels
    return ZMatrix(torch.tensor(rows[:3] + sorted(rows[3:], key=lambda row: levels[row[0]])))


@dataclass(frozen=True)
class _Graph:
    """What the choice looks at: neighbours, distances in bonds, reference structure, backbone, hydrogens."""

    names: list[str]
    near: list[list[int]]
    hops: NDArray[np.float64]
    x: NDArray[np.float64]
    hydrogen: list[bool]
    backbone: frozenset[tuple[int, int]]

    @classmethod
    def of(cls, topology: Any, positions: Tensor, name: str) -> "_Graph":
        atoms, near = list(topology.atoms()), neighbours(topology)
        _refuse(atoms, near, positions, name)
        bonded = np.zeros((len(atoms), len(atoms)))
        for atom, others in enumerate(near):
            bonded[atom, others] = 1
        return cls(
            names=[f"{atom.name} of {atom.residue.name}{atom.residue.id}" for atom in atoms],
            near=near,
            hops=shortest_path(bonded, method="D", unweighted=True),
            x=positions.detach().cpu().double().numpy(),
            hydrogen=[atom.element is not None and atom.element.atomic_number == 1 for atom in atoms],
            backbone=frozenset(_backbone([atom.name for atom in atoms], near)),
        )

    def sine(self, i: int, j: int, k: int) -> float:
        """Return the sine of the angle i-j-k at j."""
        u, v = self.x[i] - self.x[j], self.x[k] - self.x[j]
        product = float(np.linalg.norm(u) * np.linalg.norm(v))
        return float(np.linalg.norm(np.cross(u, v))) / product if product else 0.0

    def off_axis(self, j: int, k: int, m: int) -> float:
        """Return how far m is from the line through j and k: the larger sine of its angles with it."""
        return max(self.sine(m, j, k), self.sine(m, k, j))

    def rank(self, parent: int, atom: int) -> tuple[bool, bool, int, int]:
        """Return the order among the atoms around a parent: backbone, heavy atoms, large branches first."""
        branch = len(reachable(atom, self.near, without=(parent, atom)))
        return (parent, atom) not in self.backbone, self.hydrogen[atom], -branch, atom


def _refuse(atoms: list[Any], near: list[list[int]], positions: Tensor, name: str) -> None:
    if len(atoms) < 2:
        raise UserError(f"{name} has {len(atoms)} atoms, and internal coordinates begin with two.")
    if tuple(positions.shape) != (len(atoms), 3) or not positions.isfinite().all():
        raise UserError(
            f"{name}: the reference structure of {len(atoms)} atoms must be finite and of shape ({len(atoms)}, 3), "
            f"not {tuple(positions.shape)}."
        )
    lost = set(range(len(atoms))) - reachable(0, near)
    if lost:
        raise UserError(
            f"{name} is not one connected molecule: no bonds lead from atom 1 to atom {min(lost) + 1}, so internal "
            "coordinates cannot join them: take one molecule at a time, or add the missing bonds."
        )


def _backbone(names: list[str], near: list[list[int]]) -> list[tuple[int, int]]:
    steps = {pair for chain in _BACKBONES for pair in zip(chain, (*chain[1:], chain[0]), strict=True)}
    return [
        (a, b)
        for a, others in enumerate(near)
        for b in others
        if (names[a], names[b]) in steps or (names[b], names[a]) in steps
    ]


def _seeds(graph: _Graph, name: str) -> tuple[int, int, int]:
    """Return the first bent triple around the most central atom that has one."""
    best, seeds = 0.0, (0, 0, 0)
    for middle in sorted(range(len(graph.near)), key=lambda atom: (graph.hops[atom].max(), atom)):
        around = sorted(graph.near[middle], key=lambda atom: graph.rank(middle, atom))
        for first, third in combinations(around, 2):
            bent = graph.sine(first, middle, third)
            if bent > _BENT:
                return first, middle, third
            if bent > best:
                best, seeds = bent, (first, middle, third)
    if best < _BARELY_BENT:
        raise UserError(f"{name} lies on one line, and bond angles cannot describe a linear molecule.")
    return seeds


def _grown(graph: _Graph, first: int, middle: int, third: int) -> list[tuple[int, int]]:
    """Return the remaining atoms with their bond references, in the order they are placed."""
    depth = {middle: 0, first: 1, third: 1}
    order = {first: 0, middle: 1, third: 2}
    waiting: list[tuple[Any, ...]] = []
    grown: list[tuple[int, int]] = []

    def offer(parent: int) -> None:
        for atom in graph.near[parent]:
            if atom not in order:
                beside, *rest = graph.rank(parent, atom)
                heapq.heappush(waiting, (beside, depth[parent], order[parent], *rest, parent))

    for seed in (first, middle, third):
        offer(seed)
    while waiting:
        *_, atom, parent = heapq.heappop(waiting)
        if atom not in order:
            depth[atom], order[atom] = depth[parent] + 1, len(order)
            grown.append((atom, parent))
            offer(atom)
    return grown


def _references(graph: _Graph, atom: int, parent: int, order: dict[int, int], name: str) -> tuple[int, int]:
    """Return the angle and the torsion reference of an atom: the nearest that are bent, else the most bent."""
    placed = [other for other in order if other != parent]
    angles = sorted(placed, key=lambda k: (graph.hops[parent, k], order[k]))
    for k in angles:
        if graph.sine(atom, parent, k) > _BENT:
            for m in _nearest(graph, parent, k, order):
                if graph.off_axis(parent, k, m) > _BENT:
                    return k, m

    def bent(pair: tuple[int, int]) -> float:
        # Rounded, so that references alike by symmetry do not depend on the last digit of the structure.
        return round(min(graph.sine(atom, parent, pair[0]), graph.off_axis(parent, *pair)), 2)

    k, m = max(((k, m) for k, m in product(angles, angles) if k != m), key=bent)
    if bent((k, m)) < _BARELY_BENT:
        raise UserError(
            f"{name}: around {graph.names[atom]} all atoms lie on one line in the reference structure, so no bond "
            "angle can place it."
        )
    return k, m


def _nearest(graph: _Graph, parent: int, k: int, order: dict[int, int]) -> list[int]:
    """Return torsion references: the parent's neighbours, then the angle reference's, then others by distance."""
    hops = graph.hops
    others = [m for m in order if m not in (parent, k)]
    return sorted(others, key=lambda m: (min(hops[parent, m], hops[k, m]), hops[parent, m], order[m]))
