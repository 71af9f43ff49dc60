"""Molecules: topology, OpenMM System and a minimised reference structure, from files, sequences or by name."""

from boltzkit.molecule.backbone import Backbone
from boltzkit.molecule.by_text import SMILES, read_molecule
from boltzkit.molecule.checks import unit_mistake
from boltzkit.molecule.molecule import DEFAULT_FORCEFIELD, Constraints, Molecule
from boltzkit.molecule.named import MOLECULES, find_molecule
from boltzkit.molecule.saved import load_molecule, pdb_text, save_molecule

__all__ = [
    "DEFAULT_FORCEFIELD",
    "MOLECULES",
    "SMILES",
    "Backbone",
    "Constraints",
    "Molecule",
    "find_molecule",
    "load_molecule",
    "pdb_text",
    "read_molecule",
    "save_molecule",
    "unit_mistake",
]
