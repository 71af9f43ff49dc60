"""A molecule as a graph: atoms are numbered, bonds are edges."""

from typing import Any

import torch
from torch import Tensor

__all__ = ["bond_pairs", "neighbours", "reachable"]


def bond_pairs(topology: Any) -> Tensor:
    """Return the bonds of a topology as atom indices, ``(bonds, 2)``, pairs and list in ascending order."""
    pairs = sorted({tuple(sorted((a.index, b.index))) for a, b in topology.bonds()})
    return torch.tensor(pairs, dtype=torch.int64).reshape(-1, 2)


def neighbours(topology: Any) -> list[list[int]]:
    """Return the atoms bonded to each atom."""
    near: list[list[int]] = [[] for _ in topology.atoms()]
    for a, b in bond_pairs(topology).tolist():
        near[a].append(b)
        near[b].append(a)
    return near


def reachable(start: int, near: list[list[int]], without: tuple[int, int] | None = None) -> set[int]:
    """Return the atoms that bonds lead to from a start, itself included; one bond may be taken as cut.

    >>> sorted(reachable(1, [[1], [0, 2], [1]], without=(0, 1)))
    [1, 2]
    """
    cut = {without, without[::-1]} if without else set()
    reached, frontier = {start}, [start]
    while frontier:
        frontier = [b for a in frontier for b in near[a] if b not in reached and (a, b) not in cut]
        reached.update(frontier)
    return reached
