"""A molecule as people name it: by name, by structure file, or by sequence."""

from pathlib import Path

from boltzkit.errors import UserError
from boltzkit.molecule.molecule import DEFAULT_FORCEFIELD, Molecule
from boltzkit.molecule.named import find_molecule

__all__ = ["read_molecule"]

_ENDINGS = (".pdb", ".cif", ".mmcif", ".pdbx")


def read_molecule(text: str, forcefield: str | None = None, constraints: str | None = None) -> Molecule:
    """Return a molecule given by its name, a structure file, or a sequence such as ACE-ALA-NME.

    Args:
        text: what was typed.
        forcefield: OpenMM force-field files with commas between; for files and sequences.
        constraints: ``HBonds``, ``AllBonds`` or ``HAngles``; for files and sequences.
    """
    files = DEFAULT_FORCEFIELD if forcefield is None else tuple(forcefield.split(","))
    if Path(text).suffix.lower() in _ENDINGS:
        return Molecule.from_pdb(text, files, constraints)
    if "-" in text and text == text.upper():
        return Molecule.from_sequence(text, files, constraints)
    if forcefield is not None or constraints is not None:
        raise UserError(
            "A force field and constraints go with a structure file or a sequence: a named molecule has its own."
        )
    return find_molecule(text)
