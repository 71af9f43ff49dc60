"""The content hash of a molecule: what its energy and its atoms are, whatever they are called elsewhere."""

import hashlib
import json
import re
from typing import Any

import openmm

from boltzkit.molecule.graph import bond_pairs

__all__ = ["content_hash"]

# Molecules stand alone in space, so a box that some reader left behind changes nothing.
_IRRELEVANT = re.compile(
    r' openmmVersion="[^"]*"|<PeriodicBoxVectors>.*?</PeriodicBoxVectors>', flags=re.DOTALL
)


def content_hash(topology: Any, system: Any) -> str:
    """Return SHA-256 of the atoms' elements, residues and bonds and of the serialised System.

    The same in every process. Names and numbers, the reference structure, an unused box and OpenMM's version are
    left out: a renamed or renumbered file is the same molecule.
    """
    atoms = [[atom.residue.index, atom.element.symbol if atom.element else ""] for atom in topology.atoms()]
    graph = json.dumps([atoms, bond_pairs(topology).tolist()])
    xml = _IRRELEVANT.sub("", openmm.XmlSerializer.serialize(system))
    return hashlib.sha256(f"{graph}\n{xml}".encode()).hexdigest()
