"""Whether two datasets of one molecule are samples of the same distribution, observable by observable."""

import math
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from boltzkit.data import Dataset, autocorrelation_time
from boltzkit.errors import UserError
from boltzkit.molecule import Backbone, Molecule

__all__ = ["Agreement", "Compared", "compare_datasets", "conditional_mean"]

_ALLOWED = 4.0
"""Standard errors between two means; some ten observables exceed it by chance once in two thousand comparisons."""


@dataclass(frozen=True)
class Compared:
    """One observable in both datasets: mean and standard error."""

    name: str
    first: tuple[float, float]
    second: tuple[float, float]

    @property
    def deviation(self) -> float:
        """How many standard errors the means are apart; infinitely many where only one of them has such frames."""
        apart = self.first[0] - self.second[0]
        if math.isnan(apart):
            return 0.0 if math.isnan(self.first[0]) and math.isnan(self.second[0]) else math.inf
        error = math.hypot(self.first[1], self.second[1])
        return apart / error if error > 0 else (0.0 if apart == 0 else math.copysign(math.inf, apart))


@dataclass(frozen=True)
class Agreement:
    """All observables. Trans peptide bonds only, and torsions given φ < 0 where that is said.

    Dynamics of some nanoseconds neither turns a peptide bond nor visits φ > 0 often enough to have a mean there.
    """

    compared: tuple[Compared, ...]

    @property
    def largest(self) -> float:
        """The largest deviation, in standard errors."""
        return max(abs(c.deviation) for c in self.compared)

    @property
    def good(self) -> bool:
        """Whether no observable tells the datasets apart."""
        return self.largest < _ALLOWED

    def to_json(self) -> dict[str, Any]:
        """Return plain numbers."""
        rows = [asdict(c) | {"deviation": c.deviation} for c in self.compared]
        return {"good": self.good, "largest_deviation": self.largest, "observables": rows}


def compare_datasets(first: Dataset, second: Dataset, molecule: Molecule) -> Agreement:
    """Compare the energy, and of every residue cos and sin of φ and ψ and the share of α_R, given φ < 0."""
    means = [_means(dataset, molecule) for dataset in (first, second)]
    return Agreement(tuple(Compared(name, means[0][name], means[1][name]) for name in means[0]))


def conditional_mean(values: Tensor, given: Tensor) -> tuple[float, float]:
    """Return the mean of a function where a condition holds, with its standard error, from ``(walkers, frames)``.

    The error of the ratio ⟨f·1⟩/⟨1⟩ is that of (f − μ)·1/⟨1⟩, whose mean is zero. Of its autocorrelation along walkers
    and the scatter between walkers, the larger counts.
    """
    share = float(given.double().mean())
    if share == 0:
        return math.nan, math.inf
    mean = float((values * given).double().mean()) / share
    rest = (values.double() - mean) * given / share
    along = float(rest.std()) * math.sqrt(autocorrelation_time(rest) / rest.numel())
    between = float(rest.mean(1).std()) / math.sqrt(len(rest)) if len(rest) > 1 else 0.0
    return mean, max(along, between)


def _means(dataset: Dataset, molecule: Molecule) -> dict[str, tuple[float, float]]:
    backbone = Backbone.of(molecule.topology)
    found = [
        (torch.from_numpy(dataset.positions(t.index)), torch.from_numpy(dataset.energy(t.index)))
        for t in dataset.trajectories()
    ]
    length = min((len(energy) for _, energy in found), default=0)
    if not length:
        raise UserError(f"{dataset.folder} holds no samples to compare.")
    angles = torch.stack([backbone.angles(x[:length]).double() for x, _ in found])
    trans = torch.stack([~backbone.cis(x[:length]).any(-1) for x, _ in found])
    result = {"energy": conditional_mean(torch.stack([energy[:length] for _, energy in found]), trans)}
    for place, residue in enumerate(backbone.names):
        phi, psi = angles[..., place, 0], angles[..., place, 1]
        left = trans & (phi < 0)
        helix = ((psi > -2.0) & (psi < 0.9)).double()
        waves = {"cos φ": phi.cos(), "sin φ": phi.sin(), "cos ψ": psi.cos(), "sin ψ": psi.sin(), "α_R": helix}
        result |= {f"{name} {residue}, φ < 0": conditional_mean(f, left) for name, f in waves.items()}
    return result
