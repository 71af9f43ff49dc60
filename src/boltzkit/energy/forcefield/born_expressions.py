"""CustomGBForce whose expressions spell out HCT, OBC1 or OBC2: recognised, so that they run as what they are."""

import re
from typing import Any

import openmm

from boltzkit.energy.forcefield.generalised_born import PROBE, BornAtom, GeneralisedBorn

__all__ = ["read_born"]

_NUMBER = r"(-?[\d.]+(?:e-?\d+)?)"
_DESCREENING = (
    "select(step(r+sr2-or1),0.5*(1/L-1/U+0.25*(r-sr2^2/r)*(1/(U^2)-1/(L^2))+0.5*log(L/U)/r),0);"
    "U=r+sr2;L=max(or1,D);D=abs(r-sr2)"
)
_HCT = "1/(1/or-I)"
_OBC = re.compile(
    rf"1/\(1/or-tanh\((?:{_NUMBER}\*)?psi(?:-{_NUMBER}\*psi\^2)?\+{_NUMBER}\*psi\^3\)/radius\);"
    rf"psi=I\*or;radius=or\+offset;offset={_NUMBER}"
)
_DIELECTRICS = rf"solventDielectric={_NUMBER};soluteDielectric={_NUMBER};kappa={_NUMBER};offset={_NUMBER}"
_OWN = re.compile(
    rf"-0\.5\*{_NUMBER}\*\(1/soluteDielectric-1/solventDielectric\)\*charge\^2/B;{_DIELECTRICS}"
)
_SURFACE = re.compile(rf"{_NUMBER}\*\(radius\+{PROBE}\)\^2\*\(radius/B\)\^6;radius=or\+offset;{_DIELECTRICS}")
_POLAR = re.compile(
    rf"-{_NUMBER}\*\(1/soluteDielectric-1/solventDielectric\)\*charge1\*charge2/f;"
    rf"f=sqrt\(r\^2\+B1\*B2\*exp\(-r\^2/\(4\*B1\*B2\)\)\);{_DIELECTRICS}"
)
_SINGLE, _ALL_PAIRS = openmm.CustomGBForce.SingleParticle, openmm.CustomGBForce.ParticlePairNoExclusions


def read_born(force: openmm.CustomGBForce) -> GeneralisedBorn | None:
    """Return the solvent if the force's expressions are exactly those of OpenMM's HCT, OBC1 or OBC2, else None."""
    names = [force.getPerParticleParameterName(i) for i in range(force.getNumPerParticleParameters())]
    values = [force.getComputedValueParameters(i) for i in range(force.getNumComputedValues())]
    shape = _shape([(name, _bare(text), kind) for name, text, kind in values])
    energies = [force.getEnergyTermParameters(i) for i in range(force.getNumEnergyTerms())]
    constants = _constants([(_bare(text), kind) for text, kind in energies])
    if (
        names != ["charge", "or", "sr"]
        or shape is None
        or constants is None
        or force.getNumGlobalParameters()
    ):
        return None
    prefactor, surface, offset = constants
    rows: list[Any] = [force.getParticleParameters(i) for i in range(force.getNumParticles())]
    atoms = [BornAtom(q, reduced + offset, reduced, scaled) for q, reduced, scaled in rows]
    return GeneralisedBorn(atoms, prefactor, surface, shape or None, nested=False)  # type: ignore[arg-type]


def _bare(text: str) -> str:
    return "".join(text.split())


def _shape(values: list[tuple[str, str, int]]) -> tuple[float, ...] | None:
    """Return (α, β, γ) of the tanh, () for HCT, None for anything else."""
    if len(values) != 2 or values[0] != ("I", _DESCREENING, _ALL_PAIRS):
        return None
    if values[1] == ("B", _HCT, _SINGLE):
        return ()
    found = _OBC.fullmatch(values[1][1])
    if found is None or values[1][0] != "B" or values[1][2] != _SINGLE:
        return None
    alpha, beta, gamma, _ = found.groups()
    return float(alpha or 1), float(beta or 0), float(gamma)


def _constants(energies: list[tuple[str, int]]) -> tuple[float, float, float] | None:
    """Return the polar prefactor, the surface energy (zero without that term) and the offset of the radii."""
    found: dict[str, tuple[float, ...]] = {}
    patterns = {"own": (_OWN, _SINGLE), "surface": (_SURFACE, _SINGLE), "polar": (_POLAR, _ALL_PAIRS)}
    for text, kind in energies:
        for name, (pattern, wanted) in patterns.items():
            if kind == wanted and name not in found and (match := pattern.fullmatch(text)):
                found[name] = tuple(float(number) for number in match.groups())
                break
        else:
            return None
    if not {"own", "polar"} <= found.keys() or len(set(found.values()) - {found.get("surface")}) != 1:
        return None
    coulomb, solvent, solute, kappa, offset = found["polar"]
    surface = found.get("surface", (0.0, solvent, solute, kappa, offset))
    if surface[1:] != found["polar"][1:]:
        return None
    return -0.5 * coulomb * (1 / solute - 1 / solvent), surface[0], offset
