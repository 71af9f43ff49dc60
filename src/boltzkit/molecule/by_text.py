"""A molecule as people name it: by name, by files, or by sequence."""

import os
from pathlib import Path

from boltzkit.errors import UserError
from boltzkit.molecule.molecule import DEFAULT_FORCEFIELD, Molecule
from boltzkit.molecule.named import find_molecule
from boltzkit.molecule.saved import load_molecule

__all__ = ["read_molecule"]

_ENDINGS = (".pdb", ".cif", ".mmcif", ".pdbx")
_AMBER = (".prmtop", ".parm7")
_AMBER_COORDINATES = (".inpcrd", ".rst7", ".crd")


def read_molecule(text: str, forcefield: str | None = None, constraints: str | None = None) -> Molecule:
    """Return a molecule given by its name, a file, a folder, or a sequence such as ACE-ALA-NME.

    Files are structures (PDB, mmCIF) and Amber's prmtop, which has its coordinates beside it under the same name;
    folders hold ``system.xml`` and ``topology.pdb``.

    Args:
        text: what was typed.
        forcefield: OpenMM force-field files with commas between, for structures and sequences; for a prmtop the name
            of an implicit solvent such as OBC2.
        constraints: ``HBonds``, ``AllBonds`` or ``HAngles``; for files and sequences.
    """
    path = Path(text)
    if path.suffix.lower() in _AMBER:
        return Molecule.from_amber(path, _coordinates(path), forcefield, constraints)
    files = DEFAULT_FORCEFIELD if forcefield is None else tuple(forcefield.split(","))
    if path.suffix.lower() in _ENDINGS:
        return Molecule.from_pdb(text, files, constraints)
    if "-" in text and text == text.upper():
        return Molecule.from_sequence(text, files, constraints)
    if forcefield is not None or constraints is not None:
        raise UserError(
            "A force field and constraints go with a structure file or a sequence: a named molecule has its own."
        )
    if os.path.isdir(path):  # unlike Path's own, no error for a name that no file can have
        return load_molecule(path)
    return find_molecule(text)


def _coordinates(topology: Path) -> Path:
    """Return the coordinates that lie beside a prmtop."""
    found = [path for ending in _AMBER_COORDINATES if (path := topology.with_suffix(ending)).is_file()]
    if not found:
        wanted = " or ".join(topology.with_suffix(ending).name for ending in _AMBER_COORDINATES)
        raise UserError(f"{topology} has no coordinates beside it: put {wanted} there.")
    return found[0]
