r"""The Merck force field (MMFF94; Halgren, 1996) as an OpenMM System, with the parameters that RDKit assigns.

Bonds are quartic and angles cubic; both are coupled; a Wilson angle keeps three-fold centres flat; torsions have three
periods; van der Waals is a buffered 14-7 law and Coulomb's law is buffered by 0.05 Å:

$$E = \tfrac12 k_b \Delta r^2 (1 + c\,\Delta r + \tfrac{7}{12} c^2 \Delta r^2)
  + \tfrac12 k_a \Delta\theta^2 (1 + c'\,\Delta\theta) + (k\,\Delta r + k'\,\Delta r')\,\Delta\theta
  + \tfrac12 k_o \chi^2 + \dots$$
"""

import itertools
import math
from collections.abc import Iterator
from typing import Any

import openmm

__all__ = ["mmff_system"]

_KCAL, _ANGSTROM, _DEGREE = 4.184, 0.1, math.pi / 180
_STRETCH = 143.9325 * _KCAL
"""kJ/mol of a force constant of 1 mdyn/Å over 1 Å²; in radians, of 1 mdyn Å/rad²."""
_COULOMB = 332.0716 * _KCAL
"""kJ/mol of two unit charges 1 Å apart."""
_NEIGHBOURS = 0.75
"""Share of the Coulomb energy that atoms three bonds apart keep."""
_LINEAR = frozenset({4, 53, 61})
"""Atom types whose bonds lie on a line."""

_BOND = "k/2*d^2*(1-2*d+7/3*d^2); d=(r-r0)*10"
_ANGLE = "k/2*d^2*(1-0.4*d); d=theta-theta0"
_LINE = "k*(1+cos(theta))"
_COUPLING = "(k1*(distance(p1,p2)-r1)+k2*(distance(p2,p3)-r2))*10*(angle(p1,p2,p3)-theta0)"  # mdyn/rad and Å
# The height of p4 over the plane of p1, p2, p3, seen from p2.
_WILSON = "k/2*asin(sin(angle(p1,p2,p4))*sin(dihedral(p3,p1,p2,p4)))^2"
_PAIR = "e*(1.07*s/(r+0.07*s))^7*(1.12*s^7/(r^7+0.12*s^7)-2)+c/(r+0.005)"


def mmff_system(molecule: Any, properties: Any) -> openmm.System:
    """Return the System of an RDKit molecule with hydrogens, without cutoff.

    Args:
        molecule: an RDKit ``Mol``.
        properties: what RDKit's ``MMFFGetMoleculeProperties`` gives for it.
    """
    system = openmm.System()
    for atom in molecule.GetAtoms():
        system.addParticle(atom.GetMass())
    forces = (
        _bonds(molecule, properties),
        *_angles(molecule, properties),
        _planes(molecule, properties),
        _torsions(molecule, properties),
        _pairs(molecule, properties),
    )
    for force in forces:
        system.addForce(force)
    return system


def _bonds(molecule: Any, properties: Any) -> openmm.Force:
    force = _named(openmm.CustomBondForce(_BOND), "MMFF bonds", "k", "r0")
    for bond in molecule.GetBonds():
        i, j = bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()
        _, stiffness, length = properties.GetMMFFBondStretchParams(molecule, i, j)
        force.addBond(i, j, [_STRETCH * stiffness, length * _ANGSTROM])
    return force


def _angles(molecule: Any, properties: Any) -> tuple[openmm.Force, ...]:
    """Return angles, angles on a line, and what couples angles to their bonds."""
    bent = _named(openmm.CustomAngleForce(_ANGLE), "MMFF angles", "k", "theta0")
    line = _named(openmm.CustomAngleForce(_LINE), "MMFF linear angles", "k")
    coupled = _named(
        openmm.CustomCompoundBondForce(3, _COUPLING), "MMFF stretch-bend", "k1", "k2", "r1", "r2", "theta0"
    )
    for i, j, k in _triples(molecule):
        if (found := properties.GetMMFFAngleBendParams(molecule, i, j, k)) is None:
            continue
        _, stiffness, degrees = found
        if properties.GetMMFFAtomType(j) in _LINEAR:
            line.addAngle(i, j, k, [_STRETCH * stiffness])
            continue
        bent.addAngle(i, j, k, [_STRETCH * stiffness, degrees * _DEGREE])
        if (coupling := properties.GetMMFFStretchBendParams(molecule, i, j, k)) is None:
            continue
        lengths = [properties.GetMMFFBondStretchParams(molecule, j, end)[2] * _ANGSTROM for end in (i, k)]
        coupled.addBond(
            (i, j, k), [_STRETCH * coupling[1], _STRETCH * coupling[2], *lengths, degrees * _DEGREE]
        )
    return bent, line, coupled


def _planes(molecule: Any, properties: Any) -> openmm.Force:
    """Return the Wilson angles of atoms with three neighbours, one for each of these."""
    force = _named(openmm.CustomCompoundBondForce(4, _WILSON), "MMFF out of plane", "k")
    for atom in molecule.GetAtoms():
        ends = [end.GetIdx() for end in atom.GetNeighbors()]
        if len(ends) != 3:
            continue
        for last in ends:
            i, k = (end for end in ends if end != last)
            stiffness = properties.GetMMFFOopBendParams(molecule, i, atom.GetIdx(), k, last)
            if stiffness:
                force.addBond((i, atom.GetIdx(), k, last), [_STRETCH * stiffness])
    return force


def _torsions(molecule: Any, properties: Any) -> openmm.Force:
    force = openmm.PeriodicTorsionForce()
    force.setName("MMFF torsions")
    for bond in molecule.GetBonds():
        middle = bond.GetBeginAtom(), bond.GetEndAtom()
        j, k = (atom.GetIdx() for atom in middle)
        for first, last in itertools.product(*(atom.GetNeighbors() for atom in middle)):
            i, m = first.GetIdx(), last.GetIdx()
            if i in (k, m) or m == j:
                continue
            if (found := properties.GetMMFFTorsionParams(molecule, i, j, k, m)) is None:
                continue
            for order, height in enumerate(found[1:], start=1):
                if height:
                    phase = math.pi if order == 2 else 0.0
                    force.addTorsion(i, j, k, m, order, phase, height / 2 * _KCAL)
    return force


def _pairs(molecule: Any, properties: Any) -> openmm.Force:
    """Return van der Waals and Coulomb energies of all atoms three and more bonds apart."""
    from rdkit.Chem import GetDistanceMatrix

    force = _named(openmm.CustomBondForce(_PAIR), "MMFF pairs", "s", "e", "c")
    apart, charge = GetDistanceMatrix(molecule), properties.GetMMFFPartialCharge
    for i, j in itertools.combinations(range(molecule.GetNumAtoms()), 2):
        if apart[i, j] < 3:
            continue
        _, _, radius, depth = properties.GetMMFFVdWParams(i, j)
        share = _NEIGHBOURS if apart[i, j] == 3 else 1.0
        product = share * charge(i) * charge(j)
        force.addBond(i, j, [radius * _ANGSTROM, depth * _KCAL, _COULOMB * product * _ANGSTROM])
    return force


def _triples(molecule: Any) -> Iterator[tuple[int, int, int]]:
    """Yield the atoms of each angle, its apex in the middle."""
    for atom in molecule.GetAtoms():
        ends = [end.GetIdx() for end in atom.GetNeighbors()]
        for i, k in itertools.combinations(ends, 2):
            yield i, atom.GetIdx(), k


def _named(force: Any, name: str, *parameters: str) -> Any:
    force.setName(name)
    is_angle = isinstance(force, openmm.CustomAngleForce)
    for parameter in parameters:
        (force.addPerAngleParameter if is_angle else force.addPerBondParameter)(parameter)
    return force
