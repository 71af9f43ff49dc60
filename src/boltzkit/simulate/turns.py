"""Turning part of a molecule about a bond: a move that keeps all bond lengths and angles, and the volume."""

from typing import NamedTuple

import torch
from torch import Tensor

from boltzkit.molecule import Molecule
from boltzkit.molecule.graph import neighbours, reachable
from boltzkit.molecule.torsions import turned_about

__all__ = ["Turn", "find_turns", "turned"]


class Turn(NamedTuple):
    """A bond and the atoms that turn about it."""

    origin: int
    """Atom of the bond on the side that turns."""
    other: int
    """Atom on the side that stays."""
    atoms: Tensor
    """The atoms that turn, the bond's own left out: they lie on the axis."""


def find_turns(molecule: Molecule) -> list[Turn]:
    """Return a turn for every bond outside rings with two atoms or more on either side; the smaller side turns."""
    near = neighbours(molecule.topology)
    turns = []
    for a, b in molecule.bonds.tolist():
        beyond = reachable(b, near, without=(a, b))
        if a in beyond:
            continue  # a ring closes
        before = set(range(molecule.n_atoms)) - beyond
        if min(len(before), len(beyond)) < 2:
            continue
        origin, other, side = (b, a, beyond) if len(beyond) <= len(before) else (a, b, before)
        turns.append(Turn(origin, other, torch.tensor(sorted(side - {origin}))))
    return turns


def turned(x: Tensor, turn: Turn, angle: Tensor) -> Tensor:
    """Return configurations ``(..., atoms, 3)`` turned by one angle each, ``(...)``, in radians."""
    return turned_about(x, (turn.other, turn.origin), turn.atoms, angle)
