"""States of a molecule: named sets of configurations, such as φ < 0, cis, or near to a structure."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from boltzkit.analysis.basins import Arc, basins
from boltzkit.analysis.observables import Observable, observables_of
from boltzkit.analysis.torsion_names import Torsion, main_torsions, torsions_of
from boltzkit.ensemble import Ensemble
from boltzkit.errors import UserError

__all__ = ["State", "all_of", "automatic_states", "within", "within_arc"]

_MOST = 12
"""Torsions of a molecule without backbone whose basins become states."""

Mask = Callable[[Tensor], Tensor]
"""``(n, atoms, 3) -> (n,)``, boolean."""


@dataclass(frozen=True, eq=False)
class State:
    """A named set of configurations.

    Attributes:
        name: as tables call it.
        inside: whether a configuration belongs to it, ``(n, atoms, 3) -> (n,)``; never one that is not finite.
        group: states of one group are compared with each other.
    """

    name: str
    inside: Mask
    group: str = ""


def within(observable: Observable, low: float, high: float) -> Mask:
    """Return the mask of an observable in [low, high); that of an angle may go around, from 170° to −170°.

    Args:
        observable: whose values count.
        low: lower end, in the observable's unit.
        high: upper end.
    """
    if observable.periodic:
        # A whole turn and nothing are both zero after the remainder.
        width = 2 * math.pi if high - low >= 2 * math.pi else (high - low) % (2 * math.pi)
        return within_arc(observable, Arc(low, width, low))

    def inside(x: Tensor) -> Tensor:
        values = observable.values(x)
        return (values >= low) & (values < high)

    return inside


def within_arc(observable: Observable, arc: Arc) -> Mask:
    """Return the mask of an angle on an arc."""
    return lambda x: arc.holds(observable.values(x))


def all_of(masks: list[Mask]) -> Mask:
    """Return the mask of configurations that all masks hold."""

    def inside(x: Tensor) -> Tensor:
        return torch.stack([mask(x) for mask in masks]).all(0)

    return inside


def automatic_states(ensemble: Ensemble) -> list[State]:
    """Return states that suit a molecule without being told.

    For every residue of a peptide φ < 0 and φ > 0, and cis and trans of the peptide bonds that are both; of other
    molecules the basins of every torsion that has more than one. Each torsion makes a group of its own, whose states
    hold every configuration once.
    """
    if ensemble.subject is None:
        raise UserError(
            f"There are no states of {ensemble.name} to be found, as it is no molecule: give states."
        )
    molecule = ensemble.subject.molecule
    observables, torsions = observables_of(molecule), torsions_of(molecule)
    phi = [t for t in torsions if t.kind == "phi"]
    if phi:
        states = [state for t in phi for state in _signs(observables[t.name])]
        omega = [t for t in torsions if t.kind == "omega"]
        return states + [state for t in omega for state in _bond_sides(ensemble, observables[t.name])]
    return [
        state
        for t in main_torsions(molecule, _MOST)
        for state in _basin_states(ensemble, observables[t.name], t)
    ]


def _signs(phi: Observable) -> list[State]:
    return [
        State(f"{phi.name} < 0", within(phi, -math.pi, 0.0), phi.name),
        State(f"{phi.name} > 0", within(phi, 0.0, math.pi), phi.name),
    ]


def _bond_sides(ensemble: Ensemble, omega: Observable) -> list[State]:
    cis = within(omega, -math.pi / 2, math.pi / 2)
    trans = within(omega, math.pi / 2, -math.pi / 2)
    found = cis(ensemble.x)[ensemble.weights.values.isfinite()]
    if not found.any() or found.all():
        return []
    return [State(f"{omega.name} trans", trans, omega.name), State(f"{omega.name} cis", cis, omega.name)]


def _basin_states(ensemble: Ensemble, observable: Observable, torsion: Torsion) -> list[State]:
    carrying = ensemble.weights.values.isfinite()
    angles = observable.values(ensemble.x)[carrying]
    arcs = basins(angles, ensemble.weights.normalised()[carrying])
    if len(arcs) < 2:
        return []
    return [
        State(
            f"{torsion.name} near {math.degrees(arc.centre):.0f}°", within_arc(observable, arc), torsion.name
        )
        for arc in arcs
    ]
