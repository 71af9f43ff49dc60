"""Readers of OpenMM's custom forces."""

from collections.abc import Callable, Sequence
from typing import Any

import openmm

from boltzkit.energy.forcefield.born_expressions import read_born
from boltzkit.energy.forcefield.custom import (
    CustomAngles,
    CustomBonds,
    CustomExternal,
    CustomPairs,
    CustomTorsions,
)
from boltzkit.energy.forcefield.custom_compound import CustomCompound, flattened
from boltzkit.energy.forcefield.custom_gb import CustomGB, Kind, Stage
from boltzkit.energy.forcefield.formula import Formula, global_parameters, tabulated_functions
from boltzkit.energy.forcefield.term import Term
from boltzkit.errors import UserError

__all__ = ["CUSTOM_READERS"]

_GB_KINDS: dict[int, Kind] = {
    openmm.CustomGBForce.SingleParticle: "single",
    openmm.CustomGBForce.ParticlePair: "pair",
    openmm.CustomGBForce.ParticlePairNoExclusions: "pair without exclusions",
}


def _bonds(force: openmm.CustomBondForce, n_atoms: int) -> list[Term]:
    rows = [force.getBondParameters(i) for i in range(force.getNumBonds())]
    names = [force.getPerBondParameterName(i) for i in range(force.getNumPerBondParameters())]
    return _bonded(CustomBonds, force, ["r"], names, [(row[:-1], row[-1]) for row in rows], n_atoms)


def _angles(force: openmm.CustomAngleForce, n_atoms: int) -> list[Term]:
    rows = [force.getAngleParameters(i) for i in range(force.getNumAngles())]
    names = [force.getPerAngleParameterName(i) for i in range(force.getNumPerAngleParameters())]
    return _bonded(CustomAngles, force, ["theta"], names, [(row[:-1], row[-1]) for row in rows], n_atoms)


def _torsions(force: openmm.CustomTorsionForce, n_atoms: int) -> list[Term]:
    rows = [force.getTorsionParameters(i) for i in range(force.getNumTorsions())]
    names = [force.getPerTorsionParameterName(i) for i in range(force.getNumPerTorsionParameters())]
    return _bonded(CustomTorsions, force, ["theta"], names, [(row[:-1], row[-1]) for row in rows], n_atoms)


def _external(force: openmm.CustomExternalForce, n_atoms: int) -> list[Term]:
    rows = [force.getParticleParameters(i) for i in range(force.getNumParticles())]
    names = [force.getPerParticleParameterName(i) for i in range(force.getNumPerParticleParameters())]
    return _bonded(CustomExternal, force, ["x", "y", "z"], names, [(row[0], row[1]) for row in rows], n_atoms)


def _compound(force: openmm.CustomCompoundBondForce, n_atoms: int) -> list[Term]:
    names = [force.getPerBondParameterName(i) for i in range(force.getNumPerBondParameters())]
    rows = [force.getBondParameters(i) for i in range(force.getNumBonds())]
    if not rows:
        return []
    n_points = force.getNumParticlesPerBond()
    text, measures = flattened(force.getEnergyFunction(), n_points)
    coordinates = [f"{axis}{point}" for axis in "xyz" for point in range(1, n_points + 1)]
    # A coordinate hides parameters of its name, as in OpenMM.
    constants = {name: value for name, value in global_parameters(force).items() if name not in coordinates}
    formula = Formula(text, constants, tabulated_functions(force), [*measures, *names, *coordinates])
    parameters = {
        name: [row[1][i] for row in rows] for i, name in enumerate(names) if name not in coordinates
    }
    return [CustomCompound(formula, [tuple(row[0]) for row in rows], parameters, n_atoms)]


def _bonded(
    term: Callable[..., Term],
    force: Any,
    variables: Sequence[str],
    names: Sequence[str],
    rows: Sequence[tuple[Any, Sequence[float]]],
    n_atoms: int,
) -> list[Term]:
    """Build a term whose rows are (atoms, parameters)."""
    if not rows:
        return []
    formula = Formula(force.getEnergyFunction(), global_parameters(force), {}, known=[*variables, *names])
    atoms = [row[0] if isinstance(row[0], int) else tuple(row[0]) for row in rows]
    parameters = {name: [row[1][i] for row in rows] for i, name in enumerate(names)}
    return [term(formula, atoms, parameters, n_atoms)]


def _pairs(force: openmm.CustomNonbondedForce, n_atoms: int) -> list[Term]:
    _refuse_cutoff(force)
    if force.getNumInteractionGroups() or force.getNumComputedValues():
        raise UserError(
            "CustomNonbondedForce has interaction groups or computed values: use backend='openmm'."
        )
    names = [force.getPerParticleParameterName(i) for i in range(force.getNumPerParticleParameters())]
    known = ["r", *(f"{name}{side}" for name in names for side in (1, 2))]
    formula = Formula(force.getEnergyFunction(), global_parameters(force), tabulated_functions(force), known)
    exclusions = [tuple(force.getExclusionParticles(i)) for i in range(force.getNumExclusions())]
    return [CustomPairs(formula, _per_particle(force, names), exclusions, n_atoms)]


def _gb(force: openmm.CustomGBForce, n_atoms: int) -> list[Term]:
    _refuse_cutoff(force)
    if (known_model := read_born(force)) is not None:
        return [known_model]
    constants, functions = global_parameters(force), tabulated_functions(force)
    names = [force.getPerParticleParameterName(i) for i in range(force.getNumPerParticleParameters())]

    def stage(name: str, text: str, kind: Kind, atoms: Sequence[str]) -> Stage:
        known = (
            [*atoms, "x", "y", "z"]
            if kind == "single"
            else ["r", *(f"{a}{s}" for a in atoms for s in (1, 2))]
        )
        return Stage(name, Formula(text, constants, functions, known), kind)

    values, known = [], list(names)
    for i in range(force.getNumComputedValues()):
        name, text, kind = force.getComputedValueParameters(i)
        values.append(stage(name, text, _GB_KINDS[kind], known))
        known.append(name)
    energies = []
    for i in range(force.getNumEnergyTerms()):
        text, kind = force.getEnergyTermParameters(i)
        energies.append(stage("energy", text, _GB_KINDS[kind], known))
    exclusions = [tuple(force.getExclusionParticles(i)) for i in range(force.getNumExclusions())]
    return [CustomGB(values, energies, _per_particle(force, names), exclusions, n_atoms)]


def _per_particle(force: Any, names: Sequence[str]) -> dict[str, list[float]]:
    rows = [force.getParticleParameters(i) for i in range(force.getNumParticles())]
    return {name: [row[i] for row in rows] for i, name in enumerate(names)}


def _refuse_cutoff(force: Any) -> None:
    if force.getNonbondedMethod() != type(force).NoCutoff:
        raise UserError(
            f"{type(force).__name__} uses a cutoff: use backend='openmm', or build the System with "
            "nonbondedMethod=NoCutoff."
        )


CUSTOM_READERS: dict[str, Callable[[Any, int], list[Term]]] = {
    "CustomBondForce": _bonds,
    "CustomAngleForce": _angles,
    "CustomTorsionForce": _torsions,
    "CustomExternalForce": _external,
    "CustomCompoundBondForce": _compound,
    "CustomNonbondedForce": _pairs,
    "CustomGBForce": _gb,
}
"""Force class -> reader, as in `reader.READERS`."""
