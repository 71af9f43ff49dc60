"""How much a dataset of trajectories is worth: autocorrelation of the slowest torsion, populations, and drift."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from boltzkit.data import Dataset, autocorrelation_time
from boltzkit.errors import UserError
from boltzkit.molecule import Backbone, Molecule
from boltzkit.molecule.bond_torsions import bond_torsions
from boltzkit.molecule.torsions import dihedral

__all__ = ["Observable", "Quality", "assess"]

_ENOUGH = 8
"""Trajectories from which on the scatter between them tells how much a mean may move by chance."""
_DRIFTS = 5.0
"""Standard errors by which the last third of frames may differ from the first; of a hundred observables one does by
chance in ten thousand data sets."""


@dataclass(frozen=True)
class Observable:
    """The mean of one function of the configurations over all trajectories.

    Attributes:
        name: what it is.
        mean: its mean.
        error: standard error from the effective number of samples; of a state that was never or always seen, how far
            off its share may be.
        autocorrelation_time: in stored frames.
        effective: samples divided by it.
        drift: how many standard errors its mean over the last third of the frames is from that over the first, by the
            scatter between trajectories; 0 where these are too few to tell.
    """

    name: str
    mean: float
    error: float
    autocorrelation_time: float
    effective: float
    drift: float = 0.0


@dataclass(frozen=True)
class Quality:
    """Observables of a dataset, the slowest of which limits it."""

    samples: int
    trajectories: int
    observables: tuple[Observable, ...]

    @property
    def slowest(self) -> Observable:
        """The one with the longest autocorrelation time."""
        return max(self.observables, key=lambda o: o.autocorrelation_time)

    @property
    def effective(self) -> float:
        """Effective number of samples, of the slowest observable."""
        return self.slowest.effective

    @property
    def drifting(self) -> Observable | None:
        """The observable that drifts most, if one drifts more than chance allows: then the data have not settled."""
        worst = max(self.observables, key=lambda o: abs(o.drift))
        return worst if abs(worst.drift) > _DRIFTS else None

    def to_json(self) -> dict[str, Any]:
        """Return plain numbers."""
        drifting = None if self.drifting is None else self.drifting.name
        return asdict(self) | {
            "effective": self.effective,
            "slowest": self.slowest.name,
            "drifting": drifting,
        }


def assess(dataset: Dataset, molecule: Molecule) -> Quality:
    """Measure, along trajectories, the energy, sine and cosine of all torsions, and shares of rare states of peptides.

    The torsions are φ and ψ, and one about every other bond that has some, in rings too; peptide bonds count by the
    share of cis, and φ also by the share of 0 < φ < 2π/3.
    """
    watched = _Watched.of(molecule)
    found = [watched.series(dataset, t.index) for t in dataset.trajectories()]
    length = min((len(rows) for rows in found), default=0)
    if not length:
        raise UserError(f"{dataset.folder} holds no samples to judge.")
    together = torch.stack([rows[:length] for rows in found], dim=-1)
    observables = [_observe(name, together[:, place].T) for place, name in enumerate(watched.names)]
    return Quality(len(dataset), len(found), tuple(_bounded(observables, watched.states)))


@dataclass(frozen=True, eq=False)
class _Watched:
    """What is looked at in every frame.

    Attributes:
        backbone: of a peptide.
        rows: atoms of the other torsions, ``(torsions, 4)``.
        labels: their names.
    """

    backbone: Backbone
    rows: Tensor
    labels: tuple[str, ...]

    @classmethod
    def of(cls, molecule: Molecule) -> "_Watched":
        backbone = Backbone.of(molecule.topology)
        own = torch.cat([backbone.phi, backbone.psi, backbone.omega])
        taken = {frozenset(row[1:3]) for row in own.tolist()}
        others = [torsion for bond, torsion in bond_torsions(molecule).items() if bond not in taken]
        rows = torch.tensor([torsion.atoms for torsion in others], dtype=torch.int64).reshape(-1, 4)
        return cls(backbone, rows, tuple(torsion.name for torsion in others))

    @property
    def states(self) -> tuple[str, ...]:
        """Names of what holds in a frame or does not."""
        sides = (f"0 < φ < 2π/3 {name}" for name in self.backbone.names)
        return (*sides, *(f"cis {name}" for name in self.backbone.omega_names))

    @property
    def names(self) -> list[str]:
        """Names of all observables in their order."""
        angles = [f"{a} {name}" for name in self.backbone.names for a in ("φ", "ψ")]
        waves = [f"{f} {angle}" for angle in (*angles, *self.labels) for f in ("cos", "sin")]
        return ["energy", *waves, *self.states]

    def series(self, dataset: Dataset, index: np.ndarray[Any, Any]) -> Tensor:
        """Return the observables of one trajectory, ``(frames, observables)``."""
        x = torch.from_numpy(dataset.positions(index))
        phi_psi = self.backbone.angles(x).double()
        angles = torch.cat([phi_psi.flatten(1), dihedral(x, self.rows).double()], dim=-1)
        waves = torch.stack([angles.cos(), angles.sin()], dim=-1).flatten(1)
        left = (phi_psi[..., 0] > 0) & (phi_psi[..., 0] < 2 * math.pi / 3)
        energy = torch.from_numpy(dataset.energy(index)).unsqueeze(-1)
        return torch.cat([energy, waves, left.double(), self.backbone.cis(x).double()], dim=-1)


def _observe(name: str, series: Tensor) -> Observable:
    """Judge one observable along trajectories, ``(trajectories, frames)``."""
    time = autocorrelation_time(series)
    effective = series.numel() / time
    error = float(series.std()) / math.sqrt(effective)
    return Observable(name, float(series.mean()), error, time, effective, _drift(series))


def _drift(series: Tensor) -> float:
    third = series.shape[1] // 3
    if len(series) < _ENOUGH or not third:
        return 0.0
    moved = series[:, -third:].mean(1) - series[:, :third].mean(1)
    error = float(moved.std()) / math.sqrt(len(moved))
    return float(moved.mean()) / error if error > 0 else 0.0


def _bounded(observables: Sequence[Observable], states: Sequence[str]) -> list[Observable]:
    """Give states that were never or always seen the bound that the slowest of the others allows: 3/n, at 95 %."""
    moving = [o for o in observables if o.error > 0]
    slowest = max(moving, key=lambda o: o.autocorrelation_time, default=None)
    return [
        o
        if o.error > 0 or o.name not in states or slowest is None
        else replace(
            o,
            error=min(1.0, 3 / slowest.effective),
            autocorrelation_time=slowest.autocorrelation_time,
            effective=slowest.effective,
        )
        for o in observables
    ]
