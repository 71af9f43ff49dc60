"""A molecule as people name it: by name, by files, or by sequence."""

import os
from collections.abc import Sequence
from pathlib import Path

from boltzkit.errors import UserError
from boltzkit.molecule.ligand_files import LIGANDS
from boltzkit.molecule.molecule import DEFAULT_FORCEFIELD, Molecule
from boltzkit.molecule.named import find_molecule
from boltzkit.molecule.saved import load_molecule

__all__ = ["SMILES", "read_molecule"]

SMILES = "smiles:"
"""What stands before SMILES."""
_STRUCTURES = (".pdb", ".cif", ".mmcif", ".pdbx")
_BESIDE = {
    ".prmtop": (".inpcrd", ".rst7", ".crd"),
    ".parm7": (".inpcrd", ".rst7", ".crd"),
    ".top": (".gro",),
    ".psf": (".crd", ".pdb"),
    ".xml": (".pdb", ".cif"),
}
"""Files without a structure of their own, and the endings under which coordinates are looked for beside them."""
_NO_MOLECULE = (
    ".gro",
    ".inpcrd",
    ".rst7",
    ".crd",
    ".xyz",
    ".itp",
    ".prm",
    ".xtc",
    ".dcd",
)


def read_molecule(
    text: str,
    forcefield: str | None = None,
    constraints: str | None = None,
    *,
    coordinates: Path | None = None,
    parameters: Sequence[Path] = (),
    add_hydrogens: bool = False,
    trust: bool = False,
) -> Molecule:
    """Return a molecule given by its name, a file, a folder, a sequence such as ACE-ALA-NME, or SMILES.

    Files are structures (PDB, mmCIF), small molecules (SDF, MOL, MOL2), and what other engines have prepared: Amber's
    prmtop, GROMACS' top, CHARMM's psf, OpenMM's System as XML. Folders hold ``system.xml`` and ``topology.pdb``. SMILES
    stand behind ``smiles:``, as in ``smiles:CCO``.

    Args:
        text: what was typed.
        forcefield: OpenMM force-field files with commas between, for structures and sequences; for a prmtop or psf the
            name of an implicit solvent such as OBC2.
        constraints: ``HBonds``, ``AllBonds`` or ``HAngles``; for files and sequences.
        coordinates: of a prmtop, top, psf or xml; a file of the same name beside it by default.
        parameters: of a psf: its rtf, prm and str files.
        add_hydrogens: add those that a structure lacks, for pH 7, or a small molecule, for the charges it has.
        trust: let files run the code they carry.
    """
    path = Path(text)
    ending = path.suffix.lower()
    is_smiles = text.startswith(SMILES)
    if add_hydrogens and (is_smiles or ending not in (*_STRUCTURES, *LIGANDS)):
        raise UserError(
            f"Hydrogens are added to PDB, mmCIF, SDF, MOL and MOL2 files, not to {text}: leave --add-hydrogens out."
        )
    if ending in _BESIDE and not is_smiles:
        start = _coordinates(path) if coordinates is None else coordinates
        return _from_engine(path, start, forcefield, constraints, parameters, trust)
    if coordinates is not None or parameters:
        raise UserError(f"{text} needs neither --coordinates nor --parameters: leave them out.")
    if is_smiles or ending in LIGANDS:
        if forcefield is not None or constraints is not None:
            raise UserError(
                f"{text} takes MMFF94 without constraints: leave --forcefield and --constraints out."
            )
        if is_smiles:
            return Molecule.from_smiles(text.removeprefix(SMILES))
        return Molecule.from_ligand(text, add_hydrogens=add_hydrogens)
    files = DEFAULT_FORCEFIELD if forcefield is None else tuple(forcefield.split(","))
    if ending in _STRUCTURES:
        return Molecule.from_pdb(text, files, constraints, add_hydrogens=add_hydrogens, trust=trust)
    if "-" in text and text == text.upper():
        return Molecule.from_sequence(text, files, constraints, trust=trust)
    if forcefield is not None or constraints is not None:
        raise UserError(
            "A force field and constraints go with a structure file or a sequence: a named molecule has its own."
        )
    if os.path.isdir(path):  # unlike Path's own, no error for a name that no file can have
        return load_molecule(path, trust=trust)
    if ending in _NO_MOLECULE:
        raise UserError(
            f"{text} says too little to make a molecule of: give a PDB or mmCIF file, a prmtop, top or psf with "
            "coordinates beside it, or a folder that boltzkit prepare wrote."
        )
    return find_molecule(text)


def _from_engine(
    path: Path,
    coordinates: Path,
    solvent: str | None,
    constraints: str | None,
    parameters: Sequence[Path],
    trust: bool,
) -> Molecule:
    """Read what another engine has prepared."""
    ending = path.suffix.lower()
    if ending != ".psf" and parameters:
        raise UserError(f"--parameters are for a CHARMM psf, not for {path}: leave them out.")
    if ending == ".psf":
        if not parameters:
            raise UserError(f"{path} needs its parameter files: boltzkit prepare {path} --parameters FILE.")
        return Molecule.from_charmm(path, coordinates, parameters, solvent, constraints)
    if ending in (".prmtop", ".parm7"):
        return Molecule.from_amber(path, coordinates, solvent, constraints)
    if solvent is not None:
        raise UserError(f"{path} has a force field of its own: leave --forcefield out.")
    if ending == ".top":
        return Molecule.from_gromacs(path, coordinates, constraints=constraints)
    if constraints is not None:
        raise UserError(f"{path} has constraints of its own: leave --constraints out.")
    return Molecule.from_system_xml(path, coordinates, trust=trust)


def _coordinates(topology: Path) -> Path:
    """Return the coordinates that lie beside a file without any."""
    endings = _BESIDE[topology.suffix.lower()]
    found = [path for ending in endings if (path := topology.with_suffix(ending)).is_file()]
    if not found:
        wanted = " or ".join(topology.with_suffix(ending).name for ending in endings)
        raise UserError(f"{topology} has no coordinates beside it: put {wanted} there.")
    return found[0]
