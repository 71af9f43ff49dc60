"""Structures of a molecule from PDB files, and which of its atoms to compare."""

from pathlib import Path

import torch
from openmm import app
from torch import Tensor

from boltzkit.analysis.observables import heavy_atoms
from boltzkit.errors import UserError, did_you_mean
from boltzkit.molecule import Molecule
from boltzkit.molecule.parts import existing, in_nm, reading

__all__ = ["ATOMS", "chosen_atoms", "read_reference"]

ATOMS = ("heavy", "all", "backbone", "CA")
"""Choices of atoms to superimpose."""


def read_reference(path: str | Path, molecule: Molecule) -> Tensor:
    """Return a structure of the molecule from a PDB file, ``(atoms, 3)`` nm, in float64.

    The file must hold the same atoms in the same order.
    """
    path = existing(path)
    with reading(path, "a PDB file"):
        file = app.PDBFile(str(path))
    positions = in_nm(file.positions)
    if len(positions) != molecule.n_atoms:
        raise UserError(f"{path} has {len(positions)} atoms, but {molecule.name} has {molecule.n_atoms}.")
    pairs = zip(file.topology.atoms(), molecule.topology.atoms(), strict=True)
    for number, (there, here) in enumerate(pairs, start=1):
        if there.element != here.element:
            raise UserError(
                f"{path}: atom {number} is {there.name}, but {here.name} in {molecule.name}: write the file with the "
                "atoms in the molecule's order."
            )
    return positions


def chosen_atoms(molecule: Molecule, choice: object, where: str) -> Tensor:
    """Return the atoms of a choice by name, ``(chosen,)``.

    Args:
        molecule: whose atoms.
        choice: one of `ATOMS`.
        where: what messages begin with.
    """
    if choice not in ATOMS:
        raise UserError(f"{where}: there is no choice of atoms '{choice}'.{did_you_mean(str(choice), ATOMS)}")
    if choice == "heavy":
        return heavy_atoms(molecule)
    if choice == "all":
        return torch.arange(molecule.n_atoms)
    wanted = {"CA"} if choice == "CA" else {"N", "CA", "C", "O"}
    found = [atom.index for atom in molecule.topology.atoms() if atom.name in wanted]
    if len(found) < 3:
        raise UserError(
            f"{where}: {molecule.name} has only {len(found)} such atoms, and a deviation needs three: take "
            'atoms = "heavy".'
        )
    return torch.tensor(found)
