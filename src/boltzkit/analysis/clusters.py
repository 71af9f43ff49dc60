"""A few structures that stand for an ensemble: weighted k-medoids of its torsions."""

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from boltzkit.analysis.resampling import systematic
from boltzkit.analysis.torsion_names import torsion_rows, torsions_of
from boltzkit.ensemble import Ensemble, population
from boltzkit.errors import UserError
from boltzkit.molecule import Molecule
from boltzkit.molecule.torsions import dihedral
from boltzkit.weights import Estimate

__all__ = ["Cluster", "Partition", "cluster", "partition"]

_POINTS = 1_000
"""Samples that medoids are chosen among."""
_GAIN = 0.05
"""Another medoid must take away so much of the spread around the first one."""
_APART = math.radians(60.0)
"""By how much a torsion at least must differ between two medoids: less is the width of one basin."""
_CHUNK = 20_000


@dataclass(frozen=True, eq=False)
class Partition:
    """Configurations sorted by the structure whose torsions they resemble most.

    The distance is that of (cos, sin) of all torsions: a torsion turned by Δ adds 2 − 2 cos Δ to its square.

    Attributes:
        rows: atoms of the torsions, ``(torsions, 4)``.
        names: of the torsions.
        medoids: torsions of the structures, radians, ``(clusters, torsions)``.
    """

    rows: Tensor
    names: tuple[str, ...]
    medoids: Tensor

    def number(self, x: Tensor) -> Tensor:
        """Return the cluster of each configuration from 1, ``(n, atoms, 3) -> (n,)``; 0 if it is not finite."""
        return torch.cat([self._number(part) for part in torch.split(x, _CHUNK)])

    def _number(self, x: Tensor) -> Tensor:
        features = _features(dihedral(x.double(), self.rows))
        nearest = torch.cdist(features.nan_to_num(), _features(self.medoids)).argmin(1) + 1
        return torch.where(x.isfinite().flatten(1).all(1), nearest, 0)


@dataclass(frozen=True, eq=False)
class Cluster:
    """A part of an ensemble and the sample in its middle.

    Attributes:
        number: from 1, by falling population.
        population: its share of the ensemble.
        sample: number of the sample that stands for it.
        x: that sample, ``(atoms, 3)`` nm.
        torsions: of that sample, by name, radians.
    """

    number: int
    population: Estimate
    sample: int
    x: Tensor
    torsions: dict[str, float]

    def to_json(self) -> dict[str, Any]:
        """Return plain numbers, without the positions."""
        return {
            "number": self.number,
            "population": vars(self.population),
            "sample": self.sample,
            "torsions": self.torsions,
        }


def partition(x: Tensor, molecule: Molecule, most: int = 6) -> tuple[Partition, Tensor]:
    """Choose medoids among equally weighted configurations; return the partition and which they are, ``(clusters,)``.

    Greedy, then alternating, and without random numbers: the first medoid is the point of least summed squared
    distance; each further one is that which lowers the sum most among the points that differ from all before it by 60°
    in some torsion, as long as it takes away 5 % of the first sum; then points go to their nearest medoid and each part
    finds its own anew, until nothing changes.

    Args:
        x: configurations, ``(n, atoms, 3)``; n² numbers are kept, so at most a few thousand.
        molecule: whose torsions count.
        most: clusters.
    """
    torsions = torsions_of(molecule)
    rows = torsion_rows(torsions)
    angles = dihedral(x.double(), rows)
    squared = torch.cdist(_features(angles), _features(angles)).square()
    chosen = _alternated(squared, _greedy(squared, angles, most))
    return Partition(rows, tuple(torsion.name for torsion in torsions), angles[chosen]), chosen


def cluster(ensemble: Ensemble, most: int = 6, confidence: float = 0.95) -> tuple[Cluster, ...]:
    """Return the main clusters of an ensemble by falling population, with a sample that stands for each.

    Medoids are chosen among a thousand samples that systematic resampling picks; populations are those of all samples.
    None, if the molecule has no torsions.

    Args:
        ensemble: of a molecule.
        most: clusters.
        confidence: of the populations' intervals.
    """
    if ensemble.subject is None:
        raise UserError(f"Clusters need a molecule, and {ensemble.name} is none.")
    if not torsions_of(ensemble.subject.molecule):
        return ()
    picked = systematic(ensemble.weights, min(_POINTS, ensemble.n))
    found, chosen = partition(ensemble.x[picked], ensemble.subject.molecule, most)
    number = found.number(ensemble.x)
    shares = [population(ensemble.weights, number == i + 1, confidence) for i in range(len(chosen))]
    order = sorted(range(len(chosen)), key=lambda i: -shares[i].value)
    clusters = []
    for place, i in enumerate(order, start=1):
        sample = int(picked[chosen[i]])
        torsions = dict(zip(found.names, found.medoids[i].tolist(), strict=True))
        clusters.append(Cluster(place, shares[i], sample, ensemble.x[sample], torsions))
    return tuple(clusters)


def _features(angles: Tensor) -> Tensor:
    return torch.cat([angles.cos(), angles.sin()], dim=-1)


def _greedy(squared: Tensor, angles: Tensor, most: int) -> Tensor:
    first = int(squared.sum(1).argmin())
    chosen, nearest, free = [first], squared[first], _far(angles, first)
    least = _GAIN * float(nearest.sum())
    while len(chosen) < most and free.any():
        gain = torch.where(free, (nearest - squared).clamp(min=0).sum(1), 0.0)
        best = int(gain.argmax())
        if float(gain[best]) < least:
            break
        chosen.append(best)
        nearest, free = torch.minimum(nearest, squared[best]), free & _far(angles, best)
    return torch.tensor(chosen)


def _far(angles: Tensor, one: int) -> Tensor:
    """Return which points differ from one enough to be another medoid."""
    apart = torch.remainder(angles - angles[one] + math.pi, 2 * math.pi) - math.pi
    return apart.abs().amax(1) > _APART


def _alternated(squared: Tensor, chosen: Tensor) -> Tensor:
    for _ in range(100):
        nearest = squared[chosen].argmin(0)
        parts = [(nearest == i).nonzero().squeeze(1) for i in range(len(chosen))]
        new = torch.stack([part[squared[part][:, part].sum(1).argmin()] for part in parts if len(part)])
        if torch.equal(new, chosen):
            break
        chosen = new
    return chosen
