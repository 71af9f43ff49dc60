"""Which torsions are held to half the circle, so that chirality and the order of alike atoms stay as they are.

At a centre i with four neighbours the torsion of one neighbour, measured from another about the bond to a third, has
the sign of the triple product of the three: its side *is* the handedness of the centre. So one held side is enough
for every tetrahedral centre. As in the paper it is the hydrogen's at a stereocentre (the other torsions keep the full
circle), and of atoms that are alike (a methyl's hydrogens) it is those of all but the first.
"""

import math
from dataclasses import dataclass
from typing import Any

from boltzkit.coordinates.config import CoordinatesConfig
from boltzkit.coordinates.zmatrix import ZMatrix
from boltzkit.molecule.graph import neighbours
from boltzkit.molecule.stereo import stereocentres

__all__ = ["Sides", "held_sides"]

_CLEAR = 0.2
"""Sine of a torsion (12° from flat) above which its side is no accident of the reference structure."""


@dataclass(frozen=True)
class Sides:
    """The torsions that are held to half the circle.

    Attributes:
        held: side +1 or −1, by the torsion's number.
        unheld: centres that should be held but are reached by no torsion of their own, as rings may have it.
    """

    held: dict[int, int]
    unheld: tuple[int, ...]


def held_sides(topology: Any, zmatrix: ZMatrix, torsions: list[float], config: CoordinatesConfig) -> Sides:
    """Return which torsions are held on the side where they are in the reference structure.

    Args:
        topology: OpenMM Topology.
        zmatrix: the references.
        torsions: values in the reference structure, those of the z-matrix's fourth row first.
        config: whether chirality and permutations are to be held.
    """
    elements = [atom.element.atomic_number if atom.element else 0 for atom in topology.atoms()]
    stereo = {atom.index for atom in stereocentres(topology)}
    near = neighbours(topology)
    held: dict[int, int] = {}
    unheld = []
    for centre, around in enumerate(near):
        if len(around) == 4 and (config.chirality if centre in stereo else config.permutations):
            sided = _sided(centre, set(around), zmatrix, torsions)
            if not sided:
                unheld.append(centre)
            for row in _chosen(around, sided, zmatrix, elements, near):
                held[row] = 1 if torsions[row] > 0 else -1
    return Sides(held, tuple(unheld))


def _sided(centre: int, around: set[int], zmatrix: ZMatrix, torsions: list[float]) -> dict[int, int]:
    """Return the torsions, by atom, whose side is the handedness of a centre: both references are its neighbours."""
    return {
        atom: row
        for row, (atom, j, k, m) in enumerate(zmatrix.rows[3:].tolist())
        if j == centre and {k, m} <= around and abs(math.sin(torsions[row])) > _CLEAR
    }


def _chosen(
    around: list[int], sided: dict[int, int], zmatrix: ZMatrix, elements: list[int], near: list[list[int]]
) -> list[int]:
    order = {atom: place for place, atom in enumerate(zmatrix.rows[:, 0].tolist())}
    ends = sorted((atom for atom in around if len(near[atom]) == 1), key=order.__getitem__)
    seen: set[int] = set()
    alike = []
    for atom in ends:
        if elements[atom] in seen and atom in sided:
            alike.append(sided[atom])
        seen.add(elements[atom])
    if alike or not sided:
        return alike
    return [sided[min(sided, key=lambda atom: (elements[atom], -order[atom]))]]
