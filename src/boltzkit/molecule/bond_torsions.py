"""One torsion for a bond of any molecule, with a name."""

from typing import Any, NamedTuple

import torch
from torch import Tensor

from boltzkit.molecule.graph import neighbours
from boltzkit.molecule.molecule import Molecule

__all__ = ["BondTorsion", "bond_torsions"]

_STRAIGHT = 0.17
"""Sine of the angle, here 10°, from which three atoms lie too nearly on a line to define a torsion."""


class BondTorsion(NamedTuple):
    """Four atoms, of which the middle two are bonded, and their names."""

    name: str
    atoms: tuple[int, int, int, int]


def bond_torsions(molecule: Molecule) -> dict[frozenset[int], BondTorsion]:
    """Return a torsion for every bond with atoms on either side, in rings too, by the two atoms of the bond.

    Tops of three hydrogens (methyl, ammonium) are left out, since turned by a third they look the same, and so are
    straight chains of atoms, which have no torsion. The ends are the heavy neighbours of the lowest number, hydrogens
    where there are none. Names are like ``C1-C2-O1-H3``, with residues (``SER2:CA-CB-OG-HG``) where a molecule has
    several.
    """
    atoms, near = list(molecule.topology.atoms()), neighbours(molecule.topology)
    alone = molecule.topology.getNumResidues() == 1
    found = {}
    for b, c in molecule.bonds.tolist():
        a, d = _end(b, c, near, atoms), _end(c, b, near, atoms)
        if a is None or d is None or a == d or _straight(molecule.positions, a, b, c, d):
            continue
        found[frozenset((b, c))] = BondTorsion(_path([atoms[i] for i in (a, b, c, d)], alone), (a, b, c, d))
    return found


def _end(atom: int, other: int, near: list[list[int]], atoms: list[Any]) -> int | None:
    """Return the neighbour that a torsion about a bond begins with; None for a top of three hydrogens."""
    rest = sorted(n for n in near[atom] if n != other)
    heavy = [n for n in rest if atoms[n].element is None or atoms[n].element.symbol != "H"]
    if heavy:
        return heavy[0]
    return rest[0] if len(rest) in (1, 2) else None


def _straight(positions: Tensor, a: int, b: int, c: int, d: int) -> bool:
    for i, j, k in ((a, b, c), (b, c, d)):
        first, second = positions[i] - positions[j], positions[k] - positions[j]
        sine = torch.linalg.cross(first, second).norm() / (first.norm() * second.norm())
        if sine < _STRAIGHT:
            return True
    return False


def _path(atoms: list[Any], alone: bool) -> str:
    """Join names of atoms, with the residue wherever it is another than before."""
    words, residue = [], atoms[0].residue if alone else None
    for atom in atoms:
        label = f"{atom.residue.name}{atom.residue.id}:" if atom.residue != residue else ""
        words.append(label + atom.name)
        residue = atom.residue
    return "-".join(words)
