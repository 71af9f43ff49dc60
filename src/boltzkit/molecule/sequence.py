"""Structures from sequences: extended, L-handed, trans, without clashes, minimised in the force field."""

import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from boltzkit.errors import UserError
from boltzkit.molecule.chain import build_chain
from boltzkit.molecule.embed import Embedding
from boltzkit.molecule.forcefield_files import create_system, load_forcefield
from boltzkit.molecule.geometry import distances, equilibrium_geometry
from boltzkit.molecule.minimise import minimise
from boltzkit.molecule.parts import Parts
from boltzkit.molecule.stereo import handed_centres, handedness, numbered_hydrogens
from boltzkit.molecule.torsions import backbone_torsions, dihedral

__all__ = ["build_sequence", "flaw"]

_ATTEMPTS = 10
_STRAIN = 0.05  # nm: no atoms one or two bonds apart are further than this from their equilibrium distance
_NEARLY_TRANS = math.radians(150)
_CLASH = 0.15  # nm: closer than any hydrogen bond, for atoms more than two bonds apart


def build_sequence(
    sequence: str,
    forcefield: Iterable[str | Path],
    constraints: Any = None,
    seed: int = 0,
    trust: bool = False,
) -> Parts:
    """Build a sequence from the templates and equilibrium geometry of a force field.

    A structure that is flawed after minimisation is thrown away and the next one tried; all of them follow from
    the seed.
    """
    rules = load_forcefield(forcefield, trust)
    chain = build_chain(sequence, rules)
    system = create_system(rules, chain.topology, sequence, constraints, chain.templates)
    wanted = _embedding(chain.topology, system, sequence)
    wrong = None
    for attempt in range(_ATTEMPTS):
        structure = numbered_hydrogens(chain.topology, wanted.structure(seed + attempt))
        minimum = minimise(system, structure, sequence)
        wrong = flaw(minimum.positions, wanted)
        if wrong is None:
            return Parts(sequence, chain.topology, system, structure, chain.remarks, minimum)
    raise UserError(
        f"{sequence}: no sound structure in {_ATTEMPTS} attempts ({wrong}): try another seed, or load a structure "
        "from a file."
    )


def _embedding(topology: Any, system: Any, source: str) -> Embedding:
    torsions = backbone_torsions(topology)
    return Embedding(
        geometry=equilibrium_geometry(topology, system, source).with_trans(torsions.trans),
        centres=handed_centres(topology, source),
        torsions=torsions,
        residues=torch.tensor([atom.residue.index for atom in topology.atoms()]),
    )


def flaw(positions: Tensor, wanted: Embedding) -> str | None:
    """Return what is wrong with a minimised structure, or None."""
    apart, geometry = distances(positions), wanted.geometry
    if (apart - geometry.distance)[geometry.known].abs().max() > _STRAIN:
        return "a bond or an angle is strained"
    if (apart[~geometry.known & ~torch.eye(len(apart), dtype=torch.bool)] < _CLASH).any():
        return "atoms clash"
    if (handedness(positions, wanted.centres) < 0).any():
        return "a centre is of the wrong hand"
    if (dihedral(positions, wanted.torsions.trans).abs() < _NEARLY_TRANS).any():
        return "a peptide bond is not trans"
    return None
