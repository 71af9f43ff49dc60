"""Conformers laid on top of each other and turned to their broad side, so that switching shows what moves."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from boltzkit.report.molecule.content import Structure

__all__ = ["Atoms", "read_atoms", "superposed"]

_RADII = {
    "H": 0.31,
    "C": 0.76,
    "N": 0.71,
    "O": 0.66,
    "F": 0.57,
    "P": 1.07,
    "S": 1.05,
    "CL": 1.02,
    "BR": 1.20,
    "I": 1.39,
}
"""Covalent, in ångström, the unit of PDB files."""
_RADIUS, _SLACK = 0.9, 0.4


@dataclass(frozen=True, eq=False)
class Atoms:
    """What a picture needs of a structure.

    Attributes:
        elements: symbols in capitals.
        positions: ``(atoms, 3)`` ångström.
    """

    elements: tuple[str, ...]
    positions: NDArray[np.float64]

    def bonds(self) -> list[tuple[int, int]]:
        """Return pairs of atoms that are as near as bonded ones are; a hydrogen has one bond only."""
        radii = np.array([_RADII.get(element, _RADIUS) for element in self.elements])
        distance = np.linalg.norm(self.positions[:, None] - self.positions[None], axis=-1)
        near = np.triu(distance < radii[:, None] + radii[None] + _SLACK, 1)
        hydrogen = np.array([element == "H" for element in self.elements])
        pairs = sorted(np.argwhere(near).tolist(), key=lambda pair: distance[pair[0], pair[1]])
        taken = np.zeros(len(self.elements), dtype=bool)
        kept = []
        for a, b in pairs:
            if not any(taken[atom] and hydrogen[atom] for atom in (a, b)):
                taken[[a, b]] = True
                kept.append((int(a), int(b)))
        return kept


def read_atoms(pdb: str) -> Atoms:
    """Read elements and positions of PDB text; a file without the element column goes by the atom's name."""
    lines = [line for line in pdb.splitlines() if _is_atom(line)]
    elements = tuple((line[76:78].strip() or line[12:16].strip(" 0123456789")[:1]).upper() for line in lines)
    positions = [[float(line[start : start + 8]) for start in (30, 38, 46)] for line in lines]
    return Atoms(elements, np.array(positions, dtype=np.float64).reshape(-1, 3))


def superposed(structures: Sequence[Structure]) -> tuple[Structure, ...]:
    """Return structures rotated onto the first one, whose longest axis lies along x and whose shortest along z.

    Heavy atoms decide. A structure with another number of atoms than the first is only turned to its broad side.
    """
    result: list[Structure] = []
    target: NDArray[np.float64] | None = None
    for structure in structures:
        atoms = read_atoms(structure.pdb)
        heavy = np.array([element != "H" for element in atoms.elements], dtype=bool)
        heavy = heavy if heavy.sum() >= 3 else np.ones(len(heavy), dtype=bool)
        centred = atoms.positions - atoms.positions[heavy].mean(0)
        if target is not None and len(target) == len(centred):
            turned = centred @ _onto(centred[heavy], target[heavy])
        else:
            turned = centred @ _principal(centred[heavy]) if len(heavy) >= 3 else centred
        target = turned if target is None else target
        result.append(replace(structure, pdb=_moved(structure.pdb, turned)))
    return tuple(result)


def _principal(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the rotation that puts the widest direction along x and the narrowest along z."""
    axes = np.linalg.svd(x, full_matrices=False)[2].T
    # Without this a molecule would be shown as its mirror image.
    axes[:, 2] *= np.sign(np.linalg.det(axes))
    return np.asarray(axes)


def _onto(x: NDArray[np.float64], target: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the rotation of centred x that comes nearest to the target, in the least-squares sense (Kabsch)."""
    u, _, vt = np.linalg.svd(x.T @ target)
    mirror = np.diag([1.0, 1.0, np.sign(np.linalg.det(u @ vt))])
    return np.asarray(u @ mirror @ vt)


def _moved(pdb: str, positions: NDArray[np.float64]) -> str:
    """Return PDB text with other positions."""
    places = iter(positions)
    lines = []
    for line in pdb.splitlines():
        if _is_atom(line):
            x, y, z = next(places)
            line = f"{line[:30]}{x:8.3f}{y:8.3f}{z:8.3f}{line[54:]}"
        lines.append(line)
    return "\n".join(lines) + "\n"


def _is_atom(line: str) -> bool:
    return line.startswith(("ATOM  ", "HETATM"))
