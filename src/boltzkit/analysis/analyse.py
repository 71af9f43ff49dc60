"""Everything at once: averages, states, profiles, surfaces and representatives of an ensemble, with their intervals."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from torch import Tensor

from boltzkit.analysis.averages import average
from boltzkit.analysis.clusters import Cluster, cluster
from boltzkit.analysis.observables import Observable, observables_of
from boltzkit.analysis.profile import Profile, Surface, profile, surface
from boltzkit.analysis.states import State, automatic_states
from boltzkit.analysis.torsion_names import Torsion, main_torsions
from boltzkit.ensemble import Ensemble, Subject, log_population_ratio, population
from boltzkit.errors import UserError
from boltzkit.notebook import as_list, as_rows, as_table
from boltzkit.storage import finite
from boltzkit.weights import Estimate

__all__ = ["Analysis", "Average", "StateResult", "analyse", "state_results"]

_PROFILES, _SURFACES = 12, 6


@dataclass(frozen=True)
class Average:
    """An observable's Boltzmann average: of an angle the circular mean."""

    name: str
    unit: str
    periodic: bool
    mean: Estimate


@dataclass(frozen=True)
class StateResult:
    """A state of an ensemble.

    Attributes:
        name: of the state.
        group: states of one group are compared with each other.
        population: its share.
        free_energy: ΔF = −log(P/P_reference) in k_BT; None if no weighted sample is in the state.
        reference: the most populated state of the group.
        n_samples: weighted samples in it.
    """

    name: str
    group: str
    population: Estimate
    free_energy: Estimate | None
    reference: str
    n_samples: int


@dataclass(frozen=True, eq=False)
class Analysis:
    """What an ensemble says about its molecule.

    Attributes:
        subject: the molecule and its temperature.
        summary: of the weights: numbers, failures, verdict and reasons, as in the ensemble's ``summary.json``.
        averages: of all observables.
        states: populations and free energies.
        profiles: of the main torsions.
        surfaces: over φ and ψ of residues.
        clusters: structures that stand for the ensemble, by falling population.
        confidence: of all intervals.
    """

    subject: Subject
    summary: dict[str, Any]
    averages: tuple[Average, ...]
    states: tuple[StateResult, ...]
    profiles: tuple[Profile, ...]
    surfaces: tuple[Surface, ...]
    clusters: tuple[Cluster, ...]
    confidence: float

    @property
    def trusted(self) -> bool:
        """Whether the verdict is not "do not trust"."""
        return bool(self.summary["verdict"] != "do not trust")

    def _repr_html_(self) -> str:
        """What a notebook shows: the verdict, states and averages."""
        states = (
            (s.name, str(s.population), "" if s.free_energy is None else str(s.free_energy), s.reference)
            for s in self.states
        )
        averages = ((a.name, str(a.mean), a.unit) for a in self.averages)
        return (
            as_rows(f"{self.subject.molecule.name}: {self.summary['verdict']}", {})
            + as_list(self.summary["reasons"])
            + as_table(("state", "population", "ΔF / kT", "against"), states)
            + as_table(("average", "mean", "unit"), averages)
        )

    def to_json(self) -> dict[str, Any]:
        """Return plain numbers, angles in radians; null for what does not exist."""
        plain: dict[str, Any] = finite(
            {
                "summary": self.summary,
                "temperature": self.subject.temperature,
                "confidence": self.confidence,
                "averages": [asdict(row) for row in self.averages],
                "states": [asdict(row) for row in self.states],
                "profiles": [row.to_json() for row in self.profiles],
                "surfaces": [row.to_json() for row in self.surfaces],
                "clusters": [row.to_json() for row in self.clusters],
            }
        )
        return plain


def analyse(ensemble: Ensemble, states: Sequence[State] | None = None, confidence: float = 0.95) -> Analysis:
    """Compute what a chemist asks of an ensemble of a molecule. It costs no energy evaluations.

    Failed samples are weightless everywhere and counted in the summary.

    Args:
        ensemble: of a molecule, with at least one sample that carries weight.
        states: whose populations and free energies to give; `automatic_states` by default.
        confidence: of all intervals.
    """
    if ensemble.subject is None:
        raise UserError(
            f"{ensemble.name} is no molecule, so there are no torsions and sizes to analyse: use expectation and "
            "free_energy_difference of the ensemble."
        )
    molecule = ensemble.subject.molecule
    observables, torsions = observables_of(molecule), main_torsions(molecule, _PROFILES)
    states = automatic_states(ensemble) if states is None else states
    return Analysis(
        subject=ensemble.subject,
        summary=ensemble.summary(),
        averages=tuple(
            Average(o.name, o.unit, o.periodic, average(ensemble, o, confidence))
            for o in observables.values()
        ),
        states=state_results(ensemble, states, confidence),
        profiles=tuple(profile(ensemble, observables[t.name], confidence=confidence) for t in torsions),
        surfaces=_surfaces(ensemble, torsions, observables, confidence),
        clusters=cluster(ensemble, confidence=confidence),
        confidence=confidence,
    )


def state_results(
    ensemble: Ensemble, states: Sequence[State], confidence: float = 0.95
) -> tuple[StateResult, ...]:
    """Return populations, and free energies against the most populated state of each group."""
    inside = [state.inside(ensemble.x) for state in states]
    shares = [population(ensemble.weights, mask, confidence) for mask in inside]
    carrying = ensemble.weights.values.isfinite()
    results = []
    for state, mask, share in zip(states, inside, shares, strict=True):
        own = [i for i, other in enumerate(states) if other.group == state.group]
        first = max(own, key=lambda i: shares[i].value)
        difference = (
            Estimate(0.0, 0.0, 0.0, 0.0, confidence)
            if state is states[first]
            else _difference(ensemble, inside[first], mask, confidence)
        )
        count = int((mask & carrying).sum())
        results.append(StateResult(state.name, state.group, share, difference, states[first].name, count))
    return tuple(results)


def _difference(ensemble: Ensemble, reference: Tensor, state: Tensor, confidence: float) -> Estimate | None:
    carrying = ensemble.weights.values.isfinite()
    share = ensemble.weights.normalised()
    if not all(float(share[mask & carrying].sum()) > 0 for mask in (reference, state)):
        return None
    return log_population_ratio(ensemble.weights, reference, state, confidence)


def _surfaces(
    ensemble: Ensemble, torsions: list[Torsion], observables: dict[str, Observable], confidence: float
) -> tuple[Surface, ...]:
    """Return the surface over φ and ψ of each residue; torsions come in pairs of one residue."""
    phi = [t.name for t in torsions if t.kind == "phi"]
    psi = [t.name for t in torsions if t.kind == "psi"]
    pairs = list(zip(phi, psi, strict=True))[:_SURFACES]
    return tuple(surface(ensemble, observables[a], observables[b], confidence=confidence) for a, b in pairs)
