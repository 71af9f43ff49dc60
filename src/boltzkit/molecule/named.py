"""The molecules of the paper, by name."""

from collections.abc import Callable
from dataclasses import replace
from types import MappingProxyType

from boltzkit.errors import UserError, did_you_mean
from boltzkit.molecule.molecule import DEFAULT_FORCEFIELD, Molecule

__all__ = [
    "MOLECULES",
    "alanine_dipeptide",
    "alanine_dipeptide_cartesian",
    "alanine_hexapeptide",
    "alanine_tetrapeptide",
    "find_molecule",
]


def alanine_dipeptide() -> Molecule:
    """ACE-ALA-NME, 22 atoms, Amber ff96 with the OBC1 implicit solvent, no constraints."""
    built = Molecule.from_sequence("ACE-ALA-NME", ("amber96.xml", "implicit/obc1.xml"))
    return replace(built, name="alanine-dipeptide")


def alanine_dipeptide_cartesian() -> Molecule:
    """ACE-ALA-NME, 22 atoms, Amber ff99SB-ILDN with OBC2, no constraints."""
    return replace(Molecule.from_sequence("ACE-ALA-NME"), name="alanine-dipeptide-cartesian")


def alanine_tetrapeptide() -> Molecule:
    """ACE-ALA-ALA-ALA-NME, 42 atoms, Amber ff99SB-ILDN with OBC2, no constraints."""
    return replace(Molecule.from_sequence("ACE-ALA-ALA-ALA-NME"), name="alanine-tetrapeptide")


def alanine_hexapeptide() -> Molecule:
    """ACE-5·ALA-NME, 62 atoms, Amber ff99SB-ILDN with OBC2, bonds to hydrogen constrained."""
    built = Molecule.from_sequence("ACE-ALA-ALA-ALA-ALA-ALA-NME", DEFAULT_FORCEFIELD, "HBonds")
    return replace(built, name="alanine-hexapeptide")


MOLECULES: MappingProxyType[str, Callable[[], Molecule]] = MappingProxyType(
    {
        "alanine-dipeptide": alanine_dipeptide,
        "alanine-dipeptide-cartesian": alanine_dipeptide_cartesian,
        "alanine-tetrapeptide": alanine_tetrapeptide,
        "alanine-hexapeptide": alanine_hexapeptide,
    }
)
"""How each named molecule is built."""


def find_molecule(name: str) -> Molecule:
    """Return the molecule of a name, spelled with dashes or underscores."""
    key = name.strip().lower().replace("_", "-")
    if key not in MOLECULES:
        raise UserError(
            f"There is no molecule '{name}'.{did_you_mean(key, MOLECULES)} Others are sequences in capitals such as "
            "ACE-VAL-NME, SMILES such as smiles:CCO, or files."
        )
    return MOLECULES[key]()
