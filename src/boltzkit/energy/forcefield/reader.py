"""From an OpenMM System to terms: one reader per kind of force."""

from collections.abc import Callable
from typing import Any

import openmm
from openmm import unit

from boltzkit.energy.forcefield.bonded import HarmonicAngles, HarmonicBonds, TorsionSeries
from boltzkit.energy.forcefield.cmap import CMAPTorsions
from boltzkit.energy.forcefield.custom_reader import CUSTOM_READERS
from boltzkit.energy.forcefield.generalised_born import GeneralisedBorn
from boltzkit.energy.forcefield.nonbonded import Nonbonded
from boltzkit.energy.forcefield.term import Term
from boltzkit.errors import UserError

__all__ = ["READERS", "read_terms"]

Reader = Callable[[Any, int], list[Term]]


def read_terms(system: openmm.System) -> list[Term]:
    """Return the terms of all forces of a System; what is not supported is named in one sentence."""
    n_atoms = system.getNumParticles()
    terms: list[Term] = []
    for force in system.getForces():
        kind = type(force).__name__
        if kind in _WITHOUT_ENERGY:
            continue
        if kind not in READERS:
            raise UserError(
                f"The torch force field does not know {kind} ({force.getName()}): use backend='openmm', "
                "or take the force out of the System."
            )
        _refuse_periodic(force)
        terms += READERS[kind](force, n_atoms)
    return terms


_WITHOUT_ENERGY = frozenset({"CMMotionRemover"})


def _plain(value: Any) -> float:
    """Strip OpenMM's units: nm, kJ/mol, radian, e."""
    return float(value.value_in_unit_system(unit.md_unit_system)) if unit.is_quantity(value) else float(value)


def _refuse_periodic(force: Any) -> None:
    if force.usesPeriodicBoundaryConditions():
        raise UserError(
            f"{type(force).__name__} uses periodic boundary conditions, which the torch force field does not know: use "
            "backend='openmm', or build the System in vacuum or implicit solvent (nonbondedMethod=NoCutoff)."
        )


def _bonds(force: openmm.HarmonicBondForce, n_atoms: int) -> list[Term]:
    rows = [force.getBondParameters(index) for index in range(force.getNumBonds())]
    bonds = [(i, j, _plain(r0), _plain(k)) for i, j, r0, k in rows if _plain(k) != 0]
    return [HarmonicBonds(bonds, n_atoms)] if bonds else []


def _angles(force: openmm.HarmonicAngleForce, n_atoms: int) -> list[Term]:
    rows = [force.getAngleParameters(index) for index in range(force.getNumAngles())]
    angles = [(i, j, k, _plain(theta), _plain(stiff)) for i, j, k, theta, stiff in rows if _plain(stiff) != 0]
    return [HarmonicAngles(angles, n_atoms)] if angles else []


def _periodic_torsions(force: openmm.PeriodicTorsionForce, n_atoms: int) -> list[Term]:
    rows = [force.getTorsionParameters(index) for index in range(force.getNumTorsions())]
    torsions = [(i, j, k, m, n, _plain(phase), _plain(height)) for i, j, k, m, n, phase, height in rows]
    torsions = [torsion for torsion in torsions if torsion[-1] != 0]
    return [TorsionSeries(TorsionSeries.periodic(torsions), n_atoms)] if torsions else []


def _ryckaert_bellemans(force: openmm.RBTorsionForce, n_atoms: int) -> list[Term]:
    rows = [force.getTorsionParameters(index) for index in range(force.getNumTorsions())]
    torsions = [(i, j, k, m, [_plain(c) for c in coefficients]) for i, j, k, m, *coefficients in rows]
    return [TorsionSeries(TorsionSeries.ryckaert_bellemans(torsions), n_atoms)] if torsions else []


def _cmap(force: openmm.CMAPTorsionForce, n_atoms: int) -> list[Term]:
    maps = []
    for index in range(force.getNumMaps()):
        size, energies = force.getMapParameters(index)
        maps.append((size, [_plain(e) for e in energies]))
    rows = [force.getTorsionParameters(index) for index in range(force.getNumTorsions())]
    torsions = [(row[0], tuple(row[1:5]), tuple(row[5:9])) for row in rows]
    return [CMAPTorsions(maps, torsions, n_atoms)] if torsions else []


def _nonbonded(force: openmm.NonbondedForce, n_atoms: int) -> list[Term]:
    if force.getNonbondedMethod() != openmm.NonbondedForce.NoCutoff:
        raise UserError(
            "NonbondedForce uses a cutoff, which the torch force field does not know: use backend='openmm', or "
            "build the System with nonbondedMethod=NoCutoff."
        )
    if force.getNumGlobalParameters() or force.getNumParticleParameterOffsets():
        raise UserError("NonbondedForce has parameter offsets: use backend='openmm'.")
    particles = [
        tuple(_plain(v) for v in force.getParticleParameters(index))
        for index in range(force.getNumParticles())
    ]
    rows = [force.getExceptionParameters(index) for index in range(force.getNumExceptions())]
    exceptions = [(i, j, _plain(qq), _plain(sigma), _plain(epsilon)) for i, j, qq, sigma, epsilon in rows]
    return [Nonbonded(particles, exceptions)]  # type: ignore[arg-type]


def _gbsa(force: openmm.GBSAOBCForce, n_atoms: int) -> list[Term]:
    if force.getNonbondedMethod() != openmm.GBSAOBCForce.NoCutoff:
        raise UserError(
            "GBSAOBCForce uses a cutoff: use backend='openmm', or build the System with nonbondedMethod=NoCutoff."
        )
    particles = [
        tuple(_plain(v) for v in force.getParticleParameters(index))
        for index in range(force.getNumParticles())
    ]
    return [
        GeneralisedBorn.gbsa_obc(
            particles,  # type: ignore[arg-type]
            force.getSoluteDielectric(),
            force.getSolventDielectric(),
            _plain(force.getSurfaceAreaEnergy()),
        )
    ]


READERS: dict[str, Reader] = {
    "HarmonicBondForce": _bonds,
    "HarmonicAngleForce": _angles,
    "PeriodicTorsionForce": _periodic_torsions,
    "RBTorsionForce": _ryckaert_bellemans,
    "NonbondedForce": _nonbonded,
    "GBSAOBCForce": _gbsa,
    "CMAPTorsionForce": _cmap,
    **CUSTOM_READERS,
}
"""Force class -> reader (force, number of atoms) -> terms."""
