"""Small organic molecules without a force field of their own: SDF, MOL and MOL2 files and SMILES, read by RDKit.

They take MMFF94 (`boltzkit.molecule.mmff`), which knows most organic molecules and needs nothing but RDKit.
"""

import contextlib
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from openmm import app

from boltzkit.errors import UserError
from boltzkit.molecule.mmff import mmff_system
from boltzkit.molecule.parts import Parts, existing, reading, tidy

__all__ = ["LIGANDS", "read_ligand", "read_smiles"]

LIGANDS = (".sdf", ".mol", ".mol2")
"""Endings of files that RDKit reads."""

_RESIDUE = "LIG"
_NEUTRAL = "The force field is MMFF94, in vacuum."
_FLAT = "The file is a flat drawing: a structure in space was built."


def read_ligand(path: str | Path, add_hydrogens: bool = False) -> Parts:
    """Read an SDF, MOL or MOL2 file; the first of several molecules counts."""
    with _quiet_rdkit() as chem:
        path = existing(path)
        kind = path.suffix.lower()
        read = chem.MolFromMol2Block if kind == ".mol2" else chem.MolFromMolBlock
        text = path.read_text(errors="replace")
        with reading(path, f"a {kind[1:].upper()} file"):
            molecule = read(text, removeHs=False)
        if molecule is None or not molecule.GetNumAtoms():
            raise UserError(f"{path} could not be read as a {kind[1:].upper()} file with atoms.")
        remarks = _count(text)
        missing = sum(atom.GetTotalNumHs() for atom in molecule.GetAtoms())
        if missing and not add_hydrogens:
            raise UserError(f"{path} lacks {missing} hydrogens: add them, or let --add-hydrogens do so.")
        if missing:
            molecule = chem.AddHs(molecule, addCoords=True)
            remarks += (f"{missing} hydrogens were added.",)
        if not molecule.GetConformer().Is3D():
            molecule, remarks = _built(molecule, str(path), seed=0), (*remarks, _FLAT)
        return _parts(path.stem, molecule, str(path), remarks)


def read_smiles(smiles: str, seed: int = 0) -> Parts:
    """Build a molecule from SMILES, in the charges that these say; the same seed gives the same structure."""
    with _quiet_rdkit() as chem:
        from rdkit.Chem.rdMolDescriptors import CalcMolFormula

        molecule = chem.MolFromSmiles(smiles)
        if molecule is None or not molecule.GetNumAtoms():
            raise UserError(f"'{smiles}' is no SMILES of a molecule.")
        molecule = _built(chem.AddHs(molecule), f"'{smiles}'", seed)
        return _parts(CalcMolFormula(molecule), molecule, f"'{smiles}'", ())


@contextlib.contextmanager
def _quiet_rdkit() -> Iterator[Any]:
    """Give RDKit, which says on stderr what is said better here."""
    try:
        from rdkit import Chem, rdBase
    except ImportError as error:
        raise UserError("SDF, MOL, MOL2 and SMILES need RDKit: pip install 'boltzkit[ligands]'.") from error
    with rdBase.BlockLogs():
        yield Chem


def _count(text: str) -> tuple[str, ...]:
    records = re.split(r"^\${4}\s*$|^@<TRIPOS>MOLECULE\s*$", text, flags=re.MULTILINE)
    molecules = sum(bool(record.strip()) for record in records)
    return (f"The first of {molecules} molecules is used.",) if molecules > 1 else ()


def _built(molecule: Any, source: str, seed: int) -> Any:
    """Return a molecule with a structure in space."""
    from rdkit.Chem.rdDistGeom import EmbedMolecule

    if EmbedMolecule(molecule, randomSeed=seed) != 0:
        raise UserError(f"{source} gives no structure in space: give an SDF file with one.")
    return molecule


def _parts(name: str, molecule: Any, source: str, remarks: tuple[str, ...]) -> Parts:
    """Put topology, System and coordinates together."""
    from rdkit.Chem.rdForceFieldHelpers import MMFFGetMoleculeProperties

    properties = MMFFGetMoleculeProperties(molecule)
    if properties is None:
        raise UserError(
            f"MMFF94 has no parameters for {source}: prepare it with OpenFF or GAFF, and give the prmtop, top or "
            "System that comes out."
        )
    names = _names(molecule)
    _refuse_radicals(molecule, names, source)
    topology = _topology(molecule, names)
    charge = sum(atom.GetFormalCharge() for atom in molecule.GetAtoms())
    field = f"The force field is MMFF94, in vacuum; the net charge is {charge:+d}." if charge else _NEUTRAL
    remarks += (field, *_stereo(molecule, names))
    positions = torch.from_numpy(molecule.GetConformer().GetPositions() / 10)
    return Parts(name, topology, mmff_system(molecule, properties), positions, remarks)


def _refuse_radicals(molecule: Any, names: list[str], source: str) -> None:
    """Refuse open shells, which MMFF94 does not know: most often a hydrogen is missing."""
    found = [
        name for name, atom in zip(names, molecule.GetAtoms(), strict=True) if atom.GetNumRadicalElectrons()
    ]
    if found:
        raise UserError(
            f"{source}: {found[0]} has an unpaired electron, and MMFF94 has no radicals: is a hydrogen missing there?"
        )


def _names(molecule: Any) -> list[str]:
    counts: Counter[str] = Counter()
    names = []
    for atom in molecule.GetAtoms():
        counts[atom.GetSymbol()] += 1
        names.append(f"{atom.GetSymbol()}{counts[atom.GetSymbol()]}")
    return names


def _topology(molecule: Any, names: list[str]) -> Any:
    topology = app.Topology()
    residue = topology.addResidue(_RESIDUE, topology.addChain())
    atoms = [
        topology.addAtom(name, app.Element.getByAtomicNumber(atom.GetAtomicNum()), residue)
        for name, atom in zip(names, molecule.GetAtoms(), strict=True)
    ]
    for bond in molecule.GetBonds():
        topology.addBond(atoms[bond.GetBeginAtomIdx()], atoms[bond.GetEndAtomIdx()])
    return tidy(topology)[0]


def _stereo(molecule: Any, names: list[str]) -> tuple[str, ...]:
    """Say which centres were left open, and so got one hand or the other, and which double bonds have two sides."""
    from rdkit.Chem import FindPotentialStereo, StereoSpecified, StereoType

    centres, bonds = [], []
    for place in FindPotentialStereo(molecule):
        if place.type == StereoType.Bond_Double:
            bond = molecule.GetBondWithIdx(place.centeredOn)
            bonds.append(f"{names[bond.GetBeginAtomIdx()]}={names[bond.GetEndAtomIdx()]}")
        elif place.type == StereoType.Atom_Tetrahedral and place.specified == StereoSpecified.Unspecified:
            centres.append(names[place.centeredOn])
    said = []
    if centres:
        said.append(
            f"No hand is given for {', '.join(centres)}: that of the structure that was built is kept."
        )
    if bonds:
        said.append(f"Both sides of {', '.join(bonds)} belong to the distribution, whichever is given.")
    return tuple(said)
