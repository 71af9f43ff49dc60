"""Whether frames are of a molecule, by the lengths of its bonds: unit, identity and order of atoms, whole or cut."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from boltzkit.errors import UserError
from boltzkit.molecule import Molecule, unit_mistake

__all__ = ["broken_bonds", "refuse_foreign_atoms", "refuse_foreign_frames"]

_FOREIGN = 0.25
"""A bond whose typical length is off by this share is another bond; thermal motion moves single frames by 0.1."""
_BROKEN = 0.5
"""A bond off by this share in a single frame is no bond."""
_ENOUGH = 1000
"""Frames, evenly spread, that tell a typical length."""


def refuse_foreign_atoms(
    n_atoms: int, elements: tuple[str, ...] | None, molecule: Molecule, source: str
) -> None:
    """Refuse another number of atoms, or other elements where the file knows them."""
    if n_atoms != molecule.n_atoms:
        raise UserError(f"{source} has {n_atoms} atoms, but {molecule.name} has {molecule.n_atoms}.")
    if elements is None:
        return
    atoms = list(molecule.topology.atoms())
    for atom, symbol in zip(atoms, elements, strict=True):
        if atom.element is not None and atom.element.symbol != symbol:
            raise UserError(
                f"{source} is not of {molecule.name}: its atom {atom.index + 1} is {symbol}, but {_label(atom)} is "
                f"{atom.element.symbol}: another molecule, or another order of atoms."
            )


def refuse_foreign_frames(positions: NDArray[np.float32], molecule: Molecule, source: str) -> None:
    """Refuse frames ``(n, atoms, 3)`` in another unit or of another molecule."""
    some = positions[:: 1 + len(positions) // _ENOUGH]
    frames = some[np.isfinite(some).all((1, 2))]
    if not len(frames) or not len(molecule.bonds):
        return
    mistake = unit_mistake(molecule.bonds, torch.from_numpy(frames))
    if mistake:
        raise UserError(f"{source}: {mistake}")
    typical, expected = np.median(_lengths(frames, molecule), axis=0), _reference(molecule)
    worst = int(np.abs(typical / expected - 1).argmax())
    if abs(typical[worst] / expected[worst] - 1) > _FOREIGN:
        atoms = list(molecule.topology.atoms())
        first, second = (_label(atoms[i]) for i in molecule.bonds[worst].tolist())
        raise UserError(
            f"{source} is not of {molecule.name}: the bond {first} to {second} is typically {typical[worst]:.3f} nm "
            f"long there, not {expected[worst]:.3f} nm: another molecule, another order of atoms, or one that is cut "
            "by a periodic box."
        )


def broken_bonds(positions: NDArray[np.float32], molecule: Molecule) -> NDArray[np.bool_]:
    """Return which frames have a bond that is no bond, as a molecule cut by a periodic box has."""
    off = np.abs(_lengths(positions, molecule) / _reference(molecule) - 1) > _BROKEN
    return np.asarray(off.any(1))


def _lengths(positions: NDArray[np.float32], molecule: Molecule) -> NDArray[np.float32]:
    first, second = molecule.bonds.numpy().T
    return np.asarray(np.linalg.norm(positions[:, first] - positions[:, second], axis=-1))


def _reference(molecule: Molecule) -> NDArray[np.float32]:
    return _lengths(molecule.positions.unsqueeze(0).float().numpy(), molecule).squeeze(0)


def _label(atom: Any) -> str:
    return f"{atom.name} of {atom.residue.name} {atom.residue.id}"
