"""How much a dataset of trajectories is worth: autocorrelation of the slowest torsion, and populations."""

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from boltzkit.data import Dataset, autocorrelation_time
from boltzkit.errors import UserError
from boltzkit.molecule import Backbone, Molecule

__all__ = ["Observable", "Quality", "assess"]


@dataclass(frozen=True)
class Observable:
    """The mean of one function of the configurations over all trajectories.

    Attributes:
        name: what it is.
        mean: its mean.
        error: standard error from the effective number of samples.
        autocorrelation_time: in stored frames.
        effective: samples divided by it.
    """

    name: str
    mean: float
    error: float
    autocorrelation_time: float
    effective: float


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

    def to_json(self) -> dict[str, Any]:
        """Return plain numbers."""
        return asdict(self) | {"effective": self.effective, "slowest": self.slowest.name}


def assess(dataset: Dataset, molecule: Molecule) -> Quality:
    """Measure sine and cosine of φ and ψ, the share of φ > 0 and of cis bonds, and the energy, along trajectories."""
    backbone = Backbone.of(molecule.topology)
    found = [_series(dataset, t.index, backbone) for t in dataset.trajectories()]
    length = min((len(rows) for rows in found), default=0)
    if not length:
        raise UserError(f"{dataset.folder} holds no samples to judge.")
    together = torch.stack([rows[:length] for rows in found], dim=-1)
    observables = tuple(_observe(name, together[:, place].T) for place, name in enumerate(_names(backbone)))
    return Quality(len(dataset), len(found), observables)


def _names(backbone: Backbone) -> list[str]:
    angles = [f"{f} {a} {name}" for name in backbone.names for a in ("φ", "ψ") for f in ("cos", "sin")]
    sides = [f"0 < φ < 2π/3 {name}" for name in backbone.names]
    return ["energy", *angles, *sides, *(f"cis {name}" for name in backbone.omega_names)]


def _series(dataset: Dataset, index: np.ndarray[Any, Any], backbone: Backbone) -> Tensor:
    """Return the observables of one trajectory, ``(frames, observables)``."""
    x = torch.from_numpy(dataset.positions(index))
    angles = backbone.angles(x).double()
    waves = torch.stack([angles.cos(), angles.sin()], dim=-1).flatten(1)
    left = (angles[..., 0] > 0) & (angles[..., 0] < 2 * math.pi / 3)
    energy = torch.from_numpy(dataset.energy(index)).unsqueeze(-1)
    return torch.cat([energy, waves, left.double(), backbone.cis(x).double()], dim=-1)


def _observe(name: str, series: Tensor) -> Observable:
    time = autocorrelation_time(series)
    effective = series.numel() / time
    return Observable(name, float(series.mean()), float(series.std()) / math.sqrt(effective), time, effective)
