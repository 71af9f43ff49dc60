"""What every reader hands over: the parts of a molecule, not yet checked or minimised."""

import os
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from openmm import app, unit
from torch import Tensor

from boltzkit.errors import UserError, did_you_mean
from boltzkit.molecule.minimise import Minimum

__all__ = ["Parts", "constraint_type", "existing", "in_nm", "reading", "tidy"]

_NO_BOX = "The periodic box of the file is ignored: the molecule stands alone, without cutoff."


@dataclass(frozen=True)
class Parts:
    """A topology with a System and coordinates that belong to it.

    Attributes:
        name: how messages call the molecule.
        topology: OpenMM Topology.
        system: OpenMM System, one particle for each atom.
        positions: the given structure, ``(atoms, 3)`` nm, float64.
        remarks: sentences about what was ignored or chosen while reading.
        minimum: where minimisation leads from there, if it was done already.
    """

    name: str
    topology: Any
    system: Any
    positions: Tensor
    remarks: tuple[str, ...] = ()
    minimum: Minimum | None = None


def existing(path: str | Path) -> Path:
    """Return a path that is a file, or refuse it."""
    found = Path(path)
    if not os.path.isfile(found):  # unlike Path's own, no error for a name that no file can have
        raise UserError(f"There is no file {found}.")
    return found


@contextmanager
def reading(path: Path, kind: str) -> Iterator[None]:
    """Say which file could not be read: OpenMM's readers raise whatever they stumble over."""
    try:
        yield
    except UserError:
        raise
    except Exception as error:
        traceback.clear_frames(error.__traceback__)  # where some of OpenMM's readers leave files open
        reason = f"{error}".strip().rstrip(".") or type(error).__name__
        raise UserError(f"{path} could not be read as {kind}: {reason}.") from error


def in_nm(positions: Any) -> Tensor:
    """Return coordinates ``(atoms, 3)`` in nm, float64; numbers without a unit are taken as nm.

    >>> in_nm([[1.0, 2.0, 3.0]] * unit.angstrom)
    tensor([[0.1000, 0.2000, 0.3000]], dtype=torch.float64)
    """
    if unit.is_quantity(positions):
        positions = positions.value_in_unit(unit.nanometer)
    if isinstance(positions, Tensor):
        return positions.detach().to("cpu", torch.float64, copy=True)
    return torch.from_numpy(np.array(positions, dtype=np.float64))


def tidy(topology: Any) -> tuple[Any, tuple[str, ...]]:
    """Return a copy with bonds in ascending order and without a periodic box, and the remark that says so.

    Force fields list their terms in the order of the bonds. In one order for every reader, a molecule gives the
    same System, and hash, whichever file it comes from.
    """
    copy = app.Topology()
    atoms = []
    for chain in topology.chains():
        new_chain = copy.addChain(chain.id)
        for residue in chain.residues():
            new_residue = copy.addResidue(residue.name, new_chain, residue.id, residue.insertionCode)
            atoms += [copy.addAtom(a.name, a.element, new_residue, a.id) for a in residue.atoms()]
    bonds = {tuple(sorted((bond[0].index, bond[1].index))): bond for bond in topology.bonds()}
    for first, second in sorted(bonds):
        bond = bonds[first, second]
        copy.addBond(atoms[first], atoms[second], bond.type, bond.order)
    boxed = topology.getPeriodicBoxVectors() is not None
    return copy, (_NO_BOX,) if boxed else ()


def constraint_type(constraints: Any) -> Any:
    """Return OpenMM's constraint type for a name (``"HBonds"``), for the type itself, or for None.

    >>> constraint_type("HBonds")
    HBonds
    """
    types = {"HBonds": app.HBonds, "AllBonds": app.AllBonds, "HAngles": app.HAngles}
    if constraints is None or any(constraints is kind for kind in types.values()):
        return constraints
    if constraints not in types:
        raise UserError(f"There are no constraints '{constraints}'." + did_you_mean(str(constraints), types))
    return types[constraints]
