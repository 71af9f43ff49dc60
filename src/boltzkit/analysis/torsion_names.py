"""The torsions of any molecule by name: backbone, side chains, and whatever else turns about a bond."""

from collections import Counter
from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

from boltzkit.molecule import Backbone, Molecule
from boltzkit.molecule.bond_torsions import bond_torsions
from boltzkit.simulate.turns import find_turns

__all__ = ["Kind", "Torsion", "main_torsions", "torsion_rows", "torsions_of"]

Kind = Literal["phi", "psi", "omega", "chi", "bond"]
"""Backbone, side chain, or any other rotatable bond."""

_CHI: tuple[tuple[tuple[str, ...], ...], ...] = (
    (("N",), ("CA",), ("CB",), ("CG", "CG1", "OG", "OG1", "SG")),
    (("CA",), ("CB",), ("CG", "CG1"), ("CD", "CD1", "OD1", "ND1", "SD")),
    (("CB",), ("CG",), ("CD", "SD"), ("NE", "OE1", "CE")),
    (("CG",), ("CD",), ("NE", "CE"), ("CZ", "NZ")),
    (("CD",), ("NE",), ("CZ",), ("NH1",)),
)
"""Atoms of χ1 to χ5 as IUPAC names them; where a residue has several of a place, the first counts."""


class Torsion(NamedTuple):
    """A named torsion: four atoms, of which the middle two are bonded."""

    name: str
    kind: Kind
    atoms: tuple[int, int, int, int]


def torsions_of(molecule: Molecule) -> list[Torsion]:
    """Return φ, ψ, ω and χ by their names, then one torsion for every other bond that turns.

    Such a bond lies outside rings and has atoms on either side. Tops of three hydrogens (methyl, ammonium) are left
    out, since turned by a third they look the same, and so are straight chains of atoms, which have no torsion. The
    ends are the heavy neighbours of the lowest number, hydrogens where there are none. Names are like
    ``phi ALA2``, ``omega ALA2-NME3``, ``chi1 LEU3`` and ``C1-C2-O1-H3``, with residues (``SER2:CA-CB-OG-HG``) where a
    molecule has several.
    """
    found = [*_backbone(Backbone.of(molecule.topology)), *_side_chains(molecule.topology)]
    taken = {frozenset(torsion.atoms[1:3]) for torsion in found}
    found += [torsion for torsion in _bonds(molecule) if frozenset(torsion.atoms[1:3]) not in taken]
    return _unique(found)


def main_torsions(molecule: Molecule, most: int = 12) -> list[Torsion]:
    """Return the torsions to look at first: φ and ψ of every residue, or the rotatable bonds of other molecules."""
    found = torsions_of(molecule)
    backbone = [torsion for torsion in found if torsion.kind in ("phi", "psi")]
    return (backbone or found)[:most]


def torsion_rows(torsions: list[Torsion]) -> Tensor:
    """Return the atoms as `dihedral` takes them, ``(torsions, 4)``."""
    return torch.tensor([torsion.atoms for torsion in torsions], dtype=torch.int64).reshape(-1, 4)


def _backbone(backbone: Backbone) -> Iterator[Torsion]:
    for name, phi, psi in zip(backbone.names, backbone.phi, backbone.psi, strict=True):
        yield Torsion(f"phi {name}", "phi", _four(phi))
        yield Torsion(f"psi {name}", "psi", _four(psi))
    for name, omega in zip(backbone.omega_names, backbone.omega, strict=True):
        yield Torsion(f"omega {name}", "omega", _four(omega))


def _four(row: Tensor) -> tuple[int, int, int, int]:
    a, b, c, d = row.tolist()
    return a, b, c, d


def _side_chains(topology: Any) -> Iterator[Torsion]:
    for residue in topology.residues():
        own = {atom.name: atom.index for atom in residue.atoms()}
        if not {"N", "CA", "C", "CB"} <= own.keys():
            continue
        for number, places in enumerate(_CHI, start=1):
            a, b, c, d = (next((own[name] for name in names if name in own), None) for names in places)
            if a is None or b is None or c is None or d is None:
                break
            yield Torsion(f"chi{number} {residue.name}{residue.id}", "chi", (a, b, c, d))


def _bonds(molecule: Molecule) -> Iterator[Torsion]:
    about = bond_torsions(molecule)
    for turn in find_turns(molecule):
        if (torsion := about.get(frozenset((turn.origin, turn.other)))) is not None:
            yield Torsion(torsion.name, "bond", torsion.atoms)


def _unique(torsions: list[Torsion]) -> list[Torsion]:
    """Add the atoms' numbers, from 1, to names that several torsions share."""
    counts = Counter(torsion.name for torsion in torsions)
    return [
        torsion._replace(name=f"{torsion.name} ({'-'.join(str(a + 1) for a in torsion.atoms)})")
        if counts[torsion.name] > 1
        else torsion
        for torsion in torsions
    ]
