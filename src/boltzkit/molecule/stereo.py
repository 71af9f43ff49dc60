"""Handedness: which atoms are stereocentres of a molecular graph, and which way round natural peptides are."""

from typing import Any

import torch
from torch import Tensor

from boltzkit.errors import UserError
from boltzkit.molecule.graph import neighbours
from boltzkit.molecule.unmatched import residue_label

__all__ = ["handed_centres", "handedness", "numbered_hydrogens", "stereocentres"]

# For each centre three neighbours a, b, c with (a − x) · (b − x) × (c − x) > 0. L-amino acids have N, C, CB that
# way round at CA; (2S,3S)-isoleucine and (2S,3R)-threonine as given.
_NATURAL = {
    ("", "CA"): ("N", "C", "CB"),
    ("ILE", "CB"): ("CA", "CG1", "CG2"),
    ("THR", "CB"): ("CA", "OG1", "CG2"),
}
# No stereocentres, but IUPAC tells the two branches apart: CG1 of valine and CD1 of leucine are pro-R.
_NAMED_BRANCHES = {
    ("VAL", "CB"): ("CA", "CG2", "CG1"),
    ("LEU", "CG"): ("CB", "CD2", "CD1"),
}
_REMOTENESS = "ABGDEZH"


def stereocentres(topology: Any) -> list[Any]:
    """Return the atoms with four neighbours that are all different by their place in the graph."""
    atoms = list(topology.atoms())
    bonded = neighbours(topology)
    labels: list[int] = [atom.element.atomic_number if atom.element else 0 for atom in atoms]
    kinds = 0
    while len(set(labels)) > kinds:
        kinds = len(set(labels))
        signatures = [(labels[i], tuple(sorted(labels[j] for j in near))) for i, near in enumerate(bonded)]
        order = {signature: rank for rank, signature in enumerate(sorted(set(signatures)))}
        labels = [order[signature] for signature in signatures]
    return [
        atom
        for atom, near in zip(atoms, bonded, strict=True)
        if len(near) == 4 and len({labels[j] for j in near}) == 4
    ]


def handed_centres(topology: Any, source: str) -> Tensor:
    """Return rows (centre, a, b, c) whose triple product is positive in natural peptides, ``(centres, 4)``.

    Beside stereocentres these are the branches of valine and leucine, which are told apart by name.

    Raises:
        UserError: a stereocentre whose natural handedness is not known here.
    """
    rows = []
    for atom in stereocentres(topology):
        rows.append(_row(atom, _NATURAL))
        if rows[-1] is None:
            raise UserError(
                f"{source}: which way round {atom.name} of {residue_label(atom.residue)} stands is not told by the "
                "sequence: build the structure elsewhere and load it from a file."
            )
    rows += [_row(atom, _NAMED_BRANCHES) for atom in topology.atoms()]
    return torch.tensor([row for row in rows if row is not None], dtype=torch.int64).reshape(-1, 4)


def numbered_hydrogens(topology: Any, positions: Tensor) -> Tensor:
    """Return a structure whose methyls and methylenes carry their hydrogens the way round IUPAC numbers them.

    They are alike but for their numbers, and swap places. So structures built on any machine, and those
    prepared elsewhere, agree on them.
    """
    positions = positions.clone()
    atoms = list(topology.atoms())
    for atom, near in zip(atoms, neighbours(topology), strict=True):
        order = _hydrogen_order(atom, [atoms[index] for index in near])
        if order and handedness(positions, torch.tensor([order[:4]])) < 0:
            positions[order[-2:]] = positions[order[-2:]].flip(0)
    return positions


def handedness(positions: Tensor, rows: Tensor) -> Tensor:
    """Return the triple product of unit bond vectors for each row; about ±0.77 for a tetrahedron."""
    x, a, b, c = (positions[rows[:, column]] for column in range(4))
    u, v, w = ((point - x) / (point - x).norm(dim=-1, keepdim=True) for point in (a, b, c))
    product: Tensor = (u * torch.linalg.cross(v, w)).sum(-1)
    return product


def _row(atom: Any, table: dict[tuple[str, str], tuple[str, str, str]]) -> list[int] | None:
    names = table.get((atom.residue.name, atom.name)) or table.get(("", atom.name))
    inside = {other.name: other.index for other in atom.residue.atoms()}
    if names is None or not set(names) <= set(inside):
        return None
    return [atom.index, *(inside[name] for name in names)]


def _hydrogen_order(atom: Any, near: list[Any]) -> list[int] | None:
    """Return the centre and its neighbours in right-handed order, two hydrogens that may swap at the end."""
    hydrogens = sorted((n for n in near if n.element.symbol == "H"), key=lambda n: str(n.name))
    others = sorted((n for n in near if n.element.symbol != "H"), key=lambda n: _remoteness(n.name))
    if len(near) != 4 or len(hydrogens) not in (2, 3):
        return None
    # A methyl seen from its bond numbers its hydrogens in turn; a methylene has the second one where a
    # right-handed system with the inner and the outer neighbour puts it.
    order = hydrogens if len(hydrogens) == 3 else [*others, *reversed(hydrogens)]
    return [atom.index, *(n.index for n in order)]


def _remoteness(name: str) -> int:
    """Rank by IUPAC's Greek letter: CA, CB, CG, ...; the backbone's N and C come last, in this order."""
    return _REMOTENESS.find(name[1]) if len(name) > 1 else len(_REMOTENESS) + "NC".find(name)
