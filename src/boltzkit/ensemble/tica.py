"""Slow coordinates of a peptide: time-lagged independent components of its backbone torsions.

Features are cos and sin of every φ and ψ. They know nothing of overall motion, are bounded, so that one distorted
sample cannot stretch a range or dominate a component, and hold what moves slowly in a peptide. ω is left out: a bond
that turns cis once in a simulation would be the slowest component of all, and hide those that are sampled.
The lag is 2 ps: beyond the vibrations, and within the memory of the faster of two components, 2 ps for alanine
dipeptide in implicit solvent at a friction of 1/ps, where the slower one has 6 ps and up. Lags from 1 to 10 ps give
nearly the same components there.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from boltzkit.data import Dataset, Trajectory
from boltzkit.errors import UserError
from boltzkit.molecule import Backbone

__all__ = ["LAG", "Tica", "fit_tica"]

LAG = 2.0
"""Picoseconds; or one frame, where frames are further apart."""
_TIMELESS = "batched sampler"
"""Protocol of datasets whose walkers jump between temperatures: the order of their frames is no time, whatever is said
of intervals."""


@dataclass(frozen=True, eq=False)
class Tica:
    """The two slowest components of cos and sin of φ and ψ.

    Attributes:
        mean: of the features, ``(features,)``: cos and sin of φ, then of ψ, residue after residue.
        directions: of the components, ``(features, 2)``, scaled to unit variance of each.
        timescales: −τ/log λ of both in picoseconds.
        lag: τ in picoseconds.
        source: which data it was fitted on.
    """

    mean: Tensor
    directions: Tensor
    timescales: tuple[float, float]
    lag: float
    source: str

    def project(self, angles: Tensor) -> Tensor:
        """Return both components, from angles in radians ``(n, residues, 2) -> (n, 2)``, in float64."""
        return (features(angles) - self.mean) @ self.directions

    def to_json(self) -> dict[str, Any]:
        """Return plain numbers."""
        return {
            "mean": self.mean.tolist(),
            "directions": self.directions.tolist(),
            "timescales_ps": list(self.timescales),
            "lag_ps": self.lag,
            "source": self.source,
        }

    @classmethod
    def parse(cls, content: dict[str, Any]) -> Self:
        """Return what `to_json` wrote."""
        mean, directions = (torch.tensor(content[k], dtype=torch.float64) for k in ("mean", "directions"))
        first, second = content["timescales_ps"]
        return cls(mean, directions, (first, second), content["lag_ps"], content["source"])


def features(angles: Tensor) -> Tensor:
    """Return cos and sin of angles, ``(n, residues, 2) -> (n, 4 residues)``, in float64."""
    angles = angles.double()
    return torch.stack([angles.cos(), angles.sin()], dim=-1).flatten(1)


def fit_tica(dataset: Dataset, backbone: Backbone, lag: float = LAG, interval: float | None = None) -> Tica:
    """Fit slow coordinates on simulations in time order, one trajectory in memory at a time.

    Args:
        dataset: molecular dynamics; frames that are missing interrupt a trajectory.
        backbone: the torsions.
        lag: picoseconds; at least the time from one frame to the next.
        interval: picoseconds between frames; what the dataset says by default.
    """
    if dataset.about.bias is not None:
        raise UserError(
            f"{dataset.folder} is biased ({dataset.about.bias}), and what a bias holds is not slow by itself: fit slow "
            "coordinates on plain dynamics."
        )
    interval = _interval(dataset, interval)
    frames = max(round(lag / interval), 1)
    pairs = (_pairs(dataset, t, backbone, frames) for t in dataset.trajectories())
    source = f"{dataset.folder.name}, {len(dataset):,} frames"
    return components(pairs, frames * interval, source)


def components(
    pairs: Iterator[tuple[NDArray[np.float64], NDArray[np.float64]]], lag: float, source: str
) -> Tica:
    """Fit components to pairs of features ``(n, features)`` a lag apart, trajectory after trajectory."""
    try:
        from deeptime.decomposition import TICA
    except ImportError as error:
        raise UserError("Slow coordinates need deeptime: pip install 'boltzkit[tica]'.") from error
    estimator, total = TICA(dim=2, scaling=None), 0
    for now, later in pairs:
        if len(now):
            estimator.partial_fit((now, later))
            total += len(now)
    if total < 1000:
        raise UserError(
            f"Only {total} pairs of frames of {source} are {lag:g} ps apart, too few for slow coordinates: "
            "simulate longer, or store frames more often."
        )
    model = estimator.fetch_model()
    directions = torch.from_numpy(np.asarray(model.singular_vectors_left[:, :2], dtype=np.float64))
    # A component is known up to its sign: the largest loading is positive.
    largest = directions.abs().argmax(0)
    directions = directions * directions[largest, torch.arange(directions.shape[1])].sign()
    first, second = (float(value) for value in model.singular_values[:2])
    times = _timescale(first, lag), _timescale(second, lag)
    return Tica(torch.from_numpy(np.asarray(model.mean_0)), directions, times, lag, source)


def _timescale(correlation: float, lag: float) -> float:
    """Return −τ/log λ, zero for a component without memory."""
    return -lag / math.log(correlation) if correlation > 0 else 0.0


def _interval(dataset: Dataset, given: float | None) -> float:
    """Return the picoseconds between frames, which only data in physical time state."""
    source = dataset.about.source
    if source.get("protocol") == _TIMELESS:
        raise UserError(
            f"{dataset.folder} comes from walkers that jump between temperatures and has no physical time: slow "
            "coordinates need molecular dynamics, --tica FOLDER."
        )
    interval = source.get("frame_interval") if given is None else given
    if interval is None:
        raise UserError(
            f"{dataset.folder} does not say how many picoseconds lie between its frames: slow coordinates need "
            "molecular dynamics, --tica FOLDER, with --frame-interval where the folder does not say it."
        )
    if not interval > 0:
        raise UserError(
            f"The time between frames must be positive, not {interval:g} ps: check --frame-interval."
        )
    return float(interval)


def _pairs(
    dataset: Dataset, trajectory: Trajectory, backbone: Backbone, frames: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the features of frames and of those a lag later, where both are stored."""
    x = torch.from_numpy(dataset.positions(trajectory.index))
    found = features(backbone.angles(x)).numpy()
    wanted = trajectory.frame + frames
    place = np.searchsorted(trajectory.frame, wanted).clip(max=len(found) - 1)
    both = trajectory.frame[place] == wanted
    return found[both], found[place[both]]
