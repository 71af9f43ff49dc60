"""Whether a proposal's importance samples can stand for the target: overlap as a whole, and basin by basin."""

import math
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from boltzkit.analysis import basins, observables_of
from boltzkit.ensemble import Ensemble
from boltzkit.errors import UserError
from boltzkit.storage import finite
from boltzkit.weights import LogWeights, pareto_k

__all__ = ["BasinOverlap", "Overlap", "overlap_of"]

_LOST = 10.0
"""Effective samples below which a basin cannot be learned from an importance set."""


@dataclass(frozen=True)
class BasinOverlap:
    """One basin of the biased data, and what the importance samples have of it.

    Attributes:
        name: the torsion and where on its circle.
        data: share of the biased data.
        proposal: share of the proposal's samples.
        weighted: share of their weight, an estimate of the population.
        effective: effective number of the samples in it, whatever its population.
    """

    name: str
    data: float
    proposal: float
    weighted: float
    effective: float

    @property
    def lost(self) -> bool:
        """Whether the resampled set has too little of it to learn from."""
        return self.effective < _LOST


@dataclass(frozen=True)
class Overlap:
    """How well importance samples of the proposal cover the target, as far as samples can tell.

    Attributes:
        n: samples drawn.
        n_failed: those without a weight.
        effective: Kish's effective number.
        pareto_k: tail of the weights; above 0.7 averages are not reliable.
        basins: of the biased data.
    """

    n: int
    n_failed: int
    effective: float
    pareto_k: float
    basins: tuple[BasinOverlap, ...] = ()

    @property
    def lost(self) -> tuple[BasinOverlap, ...]:
        """Basins that the biased data have and the importance samples lack."""
        return tuple(basin for basin in self.basins if basin.lost)

    def lines(self) -> list[str]:
        """Return it in words, for a person to read before the refinement starts."""
        failed = f", {self.n_failed:,} failed" if self.n_failed else ""
        found = [
            f"Overlap of the proposal with the target: {self.effective:,.0f} effective of {self.n:,} samples "
            f"({100 * self.effective / self.n:.1f} %), k̂ {self.pareto_k:.2f}{failed}"
        ]
        found += [
            f"  {basin.name}: {100 * basin.data:.1f} % of the biased data, {100 * basin.proposal:.1f} % of the "
            f"proposal, {100 * basin.weighted:.2f} % of the weight, {basin.effective:,.0f} effective samples"
            for basin in self.basins
        ]
        return found

    def remarks(self) -> list[str]:
        """Return what a reader of the results must know."""
        found = []
        if not self.pareto_k < 0.7:
            found.append(
                f"the importance weights have a heavy tail (k̂ {self.pareto_k:.2f}): train the proposal longer or draw "
                "more importance.samples"
            )
        found += [
            f"the importance samples lost the basin {basin.name} ({100 * basin.data:.1f} % of the biased data, "
            f"{basin.effective:.0f} effective samples): the refined flow may lack it"
            for basin in self.lost
        ]
        return found

    def refuse_hopeless(self, least: float) -> None:
        """Refuse to refine on importance samples that cannot stand for the target."""
        if self.effective >= least:
            return
        raise UserError(
            f"The proposal hardly overlaps with the target: {self.effective:.0f} effective of {self.n:,} importance "
            f"samples (k̂ {self.pareto_k:.2f}), and importance.least_effective asks for {least:g}. Train the proposal "
            "longer (importance.steps), draw more importance.samples, or leave importance sampling out: a small "
            "unbiased set as data.path and the biased data as reference.path, with importance=null."
        )

    def to_json(self) -> dict[str, Any]:
        """Return plain numbers."""
        parts = [asdict(basin) | {"lost": basin.lost} for basin in self.basins]
        plain: dict[str, Any] = finite(asdict(self) | {"basins": parts})
        return plain


def overlap_of(samples: Ensemble, data: Tensor | None = None) -> Overlap:
    """Look at importance samples, and at what they have of each basin of the biased data.

    Basins are the arcs between the barriers of every backbone and side-chain torsion of the molecule, as the biased
    data show them. It costs no energy evaluations.

    Args:
        samples: of the proposal, weighted to the target.
        data: biased configurations of a molecule, ``(m, atoms, 3)``.
    """
    weights = samples.weights
    found: list[BasinOverlap] = []
    if data is not None and samples.subject is not None and weights.n_weighted:
        share = torch.full((len(data),), 1 / len(data), dtype=torch.float64)
        for observable in observables_of(samples.subject.molecule).values():
            if not observable.periodic or observable.slow:
                continue
            here, there = observable.values(samples.x), observable.values(data)
            arcs = basins(there, share)
            for arc in arcs if len(arcs) > 1 else []:
                name = f"{observable.name} near {math.degrees(arc.centre):.0f}°"
                found.append(_basin(name, weights, arc.holds(here), arc.holds(there)))
    tail = float(pareto_k(weights)) if weights.n_weighted else math.inf
    return Overlap(weights.n, weights.n_failed, weights.ess(), tail, tuple(found))


def _basin(name: str, weights: LogWeights, here: Tensor, there: Tensor) -> BasinOverlap:
    inside = weights.values.masked_fill(~here, -torch.inf)
    log_sum = torch.logsumexp(inside, 0)
    effective = (
        torch.exp(2 * log_sum - torch.logsumexp(2 * inside, 0)) if log_sum.isfinite() else torch.zeros(())
    )
    return BasinOverlap(
        name,
        float(there.double().mean()),
        float(here.double().mean()),
        float(weights.normalised()[here].sum()),
        float(effective),
    )
