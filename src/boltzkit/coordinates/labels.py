"""Names of coordinates for people: ``bond ALA2:CA-CB``, ``φ ALA2``."""

from collections.abc import Sequence
from typing import Any

__all__ = ["atom_labels"]

_ALPHA = ("CA", "CH3")  # the methyl of a cap stands where a residue has its CA


def atom_labels(topology: Any, rows: Sequence[Sequence[int]]) -> tuple[str, ...]:
    """Return one name for each row of one atom, two (bond), three (angle) or four (torsion)."""
    atoms = list(topology.atoms())
    return tuple(_label([atoms[index] for index in row]) for row in rows)


def _label(atoms: list[Any]) -> str:
    kind = ("", "bond ", "angle ", "torsion ")[len(atoms) - 1]
    return _backbone_torsion(atoms) or kind + _path(atoms)


def _path(atoms: list[Any]) -> str:
    """Join atom names, with the residue wherever it is another than before."""
    words, residue = [], None
    for atom in atoms:
        words.append(atom.name if atom.residue is residue else f"{_residue(atom)}:{atom.name}")
        residue = atom.residue
    return "-".join(words)


def _residue(atom: Any) -> str:
    return f"{atom.residue.name}{atom.residue.id}"


def _backbone_torsion(atoms: list[Any]) -> str | None:
    """Return φ, ψ or ω with the residue that IUPAC counts it to, if the four atoms make one, either way round."""
    for chain in (atoms, atoms[::-1]):
        match [atom.name for atom in chain]:
            case ["C", "N", "CA", "C"]:
                return f"φ {_residue(chain[2])}"
            case ["N", "CA", "C", "N"]:
                return f"ψ {_residue(chain[1])}"
            case [first, "C", "N", last] if first in _ALPHA and last in _ALPHA:
                return f"ω {_residue(chain[1])}"
    return None
