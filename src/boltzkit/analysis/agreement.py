"""Whether an ensemble and independent data of the same molecule agree, and what the ensemble lacks."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from boltzkit.analysis.basins import basins
from boltzkit.analysis.clusters import partition
from boltzkit.analysis.observables import Observable, observables_of
from boltzkit.analysis.torsion_names import torsions_of
from boltzkit.ensemble import Ensemble, population, weighted_mean
from boltzkit.ensemble.blocks import sum_variance
from boltzkit.errors import UserError
from boltzkit.molecule import Molecule
from boltzkit.storage import finite
from boltzkit.weights import Estimate, LogWeights

__all__ = ["Agreement", "BasinShare", "Compared", "agreement"]

_ALLOWED = 4.0
"""Standard errors between two means; of fifty observables one exceeds it by chance in three hundred comparisons."""
_LACKING = 0.25
"""A basin is missing if the ensemble has less than this part of it, and not by chance."""
_POINTS = 1_000
"""Data that clusters are found among."""
_TOLD = 4
"""Torsions that name a cluster."""


@dataclass(frozen=True)
class Compared:
    """One observable in the ensemble and in the data; of an angle its cosine or sine."""

    name: str
    ensemble: Estimate
    data: Estimate

    @property
    def deviation(self) -> float:
        """How many standard errors the means are apart; zero where both are the same constant."""
        apart = self.ensemble.value - self.data.value
        error = math.hypot(self.ensemble.standard_error, self.data.standard_error)
        if error == 0:
            return 0.0 if apart == 0 else math.copysign(math.inf, apart)
        return apart / error


@dataclass(frozen=True)
class BasinShare:
    """How much of the data and of the ensemble lies in one basin of the data."""

    name: str
    ensemble: Estimate
    data: Estimate

    @property
    def missing(self) -> bool:
        """Whether the ensemble lacks most of it: less than a quarter, with intervals that do not touch."""
        return self.ensemble.high < self.data.low and self.ensemble.value < _LACKING * self.data.value


@dataclass(frozen=True)
class Agreement:
    """The comparison of an ensemble with data.

    Attributes:
        compared: means of observables.
        basins: parts of the data by torsion, and by all torsions together.
        n_data: data that were used.
        n_left_out: data that are not finite.
    """

    compared: tuple[Compared, ...]
    basins: tuple[BasinShare, ...]
    n_data: int
    n_left_out: int

    @property
    def largest(self) -> float:
        """The largest deviation of a mean, in standard errors."""
        return max((abs(c.deviation) for c in self.compared), default=0.0)

    @property
    def missing(self) -> tuple[BasinShare, ...]:
        """Basins that the data have and the ensemble lacks."""
        return tuple(basin for basin in self.basins if basin.missing)

    @property
    def good(self) -> bool:
        """Whether neither a mean nor a basin tells them apart."""
        return self.largest < _ALLOWED and not self.missing

    def to_json(self) -> dict[str, Any]:
        """Return plain numbers."""
        rows = [asdict(c) | {"deviation": c.deviation} for c in self.compared]
        parts = [asdict(b) | {"missing": b.missing} for b in self.basins]
        plain: dict[str, Any] = finite(
            {
                "good": self.good,
                "largest_deviation": self.largest,
                "observables": rows,
                "basins": parts,
                "n_data": self.n_data,
                "n_left_out": self.n_left_out,
            }
        )
        return plain


def agreement(
    ensemble: Ensemble,
    x: Tensor,
    observables: Mapping[str, Observable] | None = None,
    block: Tensor | None = None,
    confidence: float = 0.95,
) -> Agreement:
    """Compare an ensemble with data that were not used to make it.

    Means say whether weights are right where both have been; basins say what the flow never visits, which no weight
    can mend. Basins are those of the data: arcs between the barriers of each torsion, and clusters of all torsions
    together, for combinations that single torsions do not show. It costs no energy evaluations.

    Args:
        ensemble: weighted samples.
        x: configurations of the Boltzmann distribution, ``(m, *event)``.
        observables: what to compare; all fast ones of the molecule by default.
        block: which data belong together, ``(m,)``, as `trajectory_blocks` tells; independent by default.
        confidence: of the intervals.
    """
    molecule = None if ensemble.subject is None else ensemble.subject.molecule
    if x.shape[1:] != ensemble.x.shape[1:]:
        raise UserError(
            f"The data have shape {tuple(x.shape[1:])} each and the samples {tuple(ensemble.x.shape[1:])}."
        )
    if observables is None:
        if molecule is None:
            raise UserError(f"{ensemble.name} is no molecule: say which observables to compare.")
        observables = {k: o for k, o in observables_of(molecule).items() if not o.slow}
    usable = x.isfinite().reshape(len(x), -1).all(1)
    if int(usable.sum()) < 2:
        raise UserError(f"Of {len(x)} data fewer than two are finite: there is nothing to compare with.")
    sides = _Sides(
        ensemble, x[usable], (torch.arange(len(x)) if block is None else block)[usable], confidence
    )
    compared = [c for observable in observables.values() for c in sides.means(observable)]
    shares = [b for o in observables.values() if o.periodic for b in sides.arcs(o)]
    if molecule is not None and torsions_of(molecule):
        shares += sides.clusters(molecule)
    return Agreement(tuple(compared), tuple(shares), int(usable.sum()), int((~usable).sum()))


@dataclass(frozen=True, eq=False)
class _Sides:
    """Both sides of a comparison."""

    ensemble: Ensemble
    x: Tensor
    block: Tensor
    confidence: float

    @property
    def equal(self) -> LogWeights:
        """Weights of the data."""
        return LogWeights(torch.zeros(len(self.x), dtype=torch.float64), {})

    def means(self, observable: Observable) -> Iterator[Compared]:
        here, there = observable.values(self.ensemble.x), observable.values(self.x).double()
        if not observable.periodic:
            yield self._mean(observable.name, here, there)
            return
        yield self._mean(f"cos {observable.name}", here.cos(), there.cos())
        yield self._mean(f"sin {observable.name}", here.sin(), there.sin())

    def _mean(self, name: str, here: Tensor, there: Tensor) -> Compared:
        moves = (there - there.mean()) / len(there)
        error = math.sqrt(sum_variance(moves, self.block))
        data = Estimate.symmetric(float(there.mean()), error, self.confidence)
        return Compared(name, weighted_mean(self.ensemble.weights, here, self.confidence), data)

    def arcs(self, observable: Observable) -> Iterator[BasinShare]:
        here, there = observable.values(self.ensemble.x), observable.values(self.x)
        found = basins(there, self.equal.normalised())
        for arc in found if len(found) > 1 else []:
            name = f"{observable.name} near {math.degrees(arc.centre):.0f}°"
            yield self._share(name, arc.holds(here), arc.holds(there))

    def clusters(self, molecule: Molecule) -> Iterator[BasinShare]:
        # Equally spaced data, so that a long trajectory is seen from its beginning to its end.
        some = torch.linspace(0, len(self.x) - 1, min(_POINTS, len(self.x))).round().long()
        found, chosen = partition(self.x[some], molecule)
        here, there = found.number(self.ensemble.x), found.number(self.x)
        for number in range(1, len(chosen) + 1):
            angles = zip(found.names, found.medoids[number - 1].tolist(), strict=True)
            words = [f"{name} {math.degrees(angle):.0f}°" for name, angle in angles]
            around = ", ".join([*words[:_TOLD], *(["…"] if len(words) > _TOLD else [])])
            yield self._share(f"cluster {number} around {around}", here == number, there == number)

    def _share(self, name: str, here: Tensor, there: Tensor) -> BasinShare:
        return BasinShare(
            name,
            population(self.ensemble.weights, here, self.confidence),
            population(self.equal, there, self.confidence, self.block),
        )
