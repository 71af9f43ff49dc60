"""What boltzkit asks of every molecule: one connected molecule, alone in space, all atoms free, in nm."""

from collections import Counter
from typing import Any

from torch import Tensor

from boltzkit.errors import UserError
from boltzkit.molecule.graph import bond_pairs, neighbours, reachable
from boltzkit.molecule.parts import Parts
from boltzkit.molecule.unmatched import residue_label

__all__ = ["check_parts", "refuse_solvent", "unit_mistake"]

_WATER_NAMES = {"HOH", "WAT", "H2O", "SOL", "TIP", "TIP3", "TIP4", "TIP5", "TP3", "SPC", "DOD"}


def check_parts(parts: Parts) -> None:
    """Refuse what cannot be treated, each with its own sentence."""
    _refuse_wrong_counts(parts)
    refuse_solvent(parts.topology, parts.name)
    _refuse_periodicity(parts.system, parts.name)
    _refuse_odd_particles(parts.system, parts.name)
    _refuse_pieces(parts.topology, parts.name)
    if not parts.positions.isfinite().all():
        atom = int((~parts.positions.isfinite()).any(1).nonzero()[0])
        raise UserError(f"{parts.name}: atom {atom + 1} has a coordinate that is not a finite number.")
    mistake = unit_mistake(bond_pairs(parts.topology), parts.positions)
    if mistake:
        raise UserError(f"{parts.name}: {mistake}")


def refuse_solvent(topology: Any, source: str) -> None:
    """Refuse water and ions beside other residues."""
    residues = list(topology.residues())
    foreign = [residue for residue in residues if _is_solvent(residue)]
    if foreign and len(residues) > 1:
        others = f" and {len(foreign) - 1} more like it" if len(foreign) > 1 else ""
        raise UserError(
            f"{source} holds explicit solvent or ions, {residue_label(foreign[0])}{others}: only molecules in "
            "vacuum or implicit solvent are supported, so strip them (Modeller.deleteWater) and load the "
            "molecule alone."
        )


def unit_mistake(bonds: Tensor, positions: Tensor) -> str | None:
    """Return a sentence when bond lengths show that coordinates are not in nm, else None.

    Args:
        bonds: atom indices, ``(bonds, 2)``.
        positions: coordinates meant as nm, ``(..., atoms, 3)``; the median over all bonds decides.
    """
    if not len(bonds):
        return None
    lengths = (positions[..., bonds[:, 0], :] - positions[..., bonds[:, 1], :]).norm(dim=-1)
    typical = float(lengths.median())
    if 0.7 < typical < 2.5:
        return (
            f"bonds are typically {typical:.2f} nm long, so the coordinates are Å given as nm: divide by 10."
        )
    if 0.007 < typical < 0.025:
        return f"bonds are typically {typical:.3f} nm long, so the coordinates are nm given as Å: multiply by 10."
    return None


def _refuse_wrong_counts(parts: Parts) -> None:
    atoms, particles = parts.topology.getNumAtoms(), parts.system.getNumParticles()
    if atoms == 0:
        raise UserError(f"{parts.name} holds no atoms.")
    if particles != atoms:
        raise UserError(
            f"{parts.name}: the topology has {atoms} atoms but the System has {particles} particles."
        )
    if tuple(parts.positions.shape) != (atoms, 3):
        shape = tuple(parts.positions.shape)
        raise UserError(f"{parts.name}: {atoms} atoms need coordinates of shape ({atoms}, 3), not {shape}.")


def _is_solvent(residue: Any) -> bool:
    elements = Counter(atom.element.symbol for atom in residue.atoms() if atom.element)
    # A lone carbon is no ion but a residue of which only CA is known; the force field will say what it lacks.
    lone_atom = elements.total() == 1 and "C" not in elements and not list(residue.bonds())
    return residue.name.upper() in _WATER_NAMES or elements == Counter("OHH") or lone_atom


def _refuse_periodicity(system: Any, name: str) -> None:
    for force in system.getForces():
        kind = type(force).__name__
        if force.usesPeriodicBoundaryConditions() or "Barostat" in kind:
            raise UserError(
                f"{name}: its {kind} is periodic, and only molecules alone in space are supported: "
                "create the System without a box or cutoff (nonbondedMethod=NoCutoff)."
            )


def _refuse_odd_particles(system: Any, name: str) -> None:
    if any(type(force).__name__ == "DrudeForce" for force in system.getForces()):
        raise UserError(
            f"{name} has Drude particles, which are not supported: take a fixed-charge force field."
        )
    for index in range(system.getNumParticles()):
        if system.isVirtualSite(index):
            raise UserError(
                f"{name}: atom {index + 1} is a virtual site, which is not supported: take a force field without."
            )
        if not system.getParticleMass(index)._value > 0:
            raise UserError(f"{name}: atom {index + 1} has no mass, so it is held in place: give it one.")


def _refuse_pieces(topology: Any, name: str) -> None:
    """Refuse molecules that are not connected by bonds."""
    atoms = list(topology.atoms())
    lost = set(range(len(atoms))) - reachable(0, neighbours(topology))
    if lost:
        atom = atoms[min(lost)]
        raise UserError(
            f"{name} is not one connected molecule: no bonds lead from atom 1 to atom {atom.index + 1} "
            f"({atom.name} of {residue_label(atom.residue)}): load one molecule at a time, or add "
            "the missing bonds (CONECT records)."
        )
