r"""What each frame of a dataset weighs under the Boltzmann distribution, where that can be known.

A frame of a simulation with potential $U + V$ at $T_d$ has, at the target's temperature $T$,

$$\log w(x) = -\beta U(x) + \beta_d\,\bigl(U(x) + V(x)\bigr).$$
"""

import math
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from boltzkit.data.autocorrelation import autocorrelation_time, effective_samples
from boltzkit.data.dataset import Dataset, Trajectory
from boltzkit.data.mbar import Mbar, solve_mbar
from boltzkit.data.umbrella import Window, stored_windows
from boltzkit.energy.constants import BOLTZMANN
from boltzkit.errors import UserError
from boltzkit.weights import LogWeights, pareto_k

__all__ = ["FrameWeights", "frame_log_weights"]

_LOOSE = 10.0
"""Effective frames that hold umbrella windows together below which their free energies mean nothing."""
_CHUNK = 65_536
_SOLVED = 200_000
"""Frames that MBAR is solved with at most: free energies are settled long before, and memory is spared."""

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class FrameWeights:
    """Log weights of frames, or why there are none.

    Attributes:
        log_weight: not normalised, ``(n,)`` float64, in the order of the dataset's samples; None where unknown.
        ess_fraction: Kish's effective number over n, of the weights alone; None where unknown.
        pareto_k: how heavy the tail of the weights is: −inf for equal ones, NaN with too few to tell; None where
            unknown.
        how: in words, how they were found or why they cannot be.
        inefficiency: g, by which correlation of the weights along time divides the number of frames.
    """

    log_weight: Tensor | None = field(repr=False)
    ess_fraction: float | None
    pareto_k: float | None
    how: str
    inefficiency: float = 1.0

    @property
    def known(self) -> bool:
        """Whether there are weights."""
        return self.log_weight is not None

    @property
    def effective(self) -> float:
        """The effective number of frames, by weights and correlation along time; 0 where unknown."""
        if self.log_weight is None or self.ess_fraction is None:
            return 0.0
        return max(1.0, self.ess_fraction * len(self.log_weight) / self.inefficiency)


def frame_log_weights(dataset: Dataset, temperature: float | None = None) -> FrameWeights:
    """Weigh the frames of a dataset, usually one split, under the Boltzmann distribution; no energy evaluations.

    Without bias all weigh the same, but for another temperature. With a stored bias the formula above holds, each run
    with a bias of its own normalised by itself. Umbrella windows are joined by MBAR, frames of each counted by its
    statistical inefficiency. A bias known in words only gives no weights.

    Args:
        dataset: the samples.
        temperature: of the target in kelvin; the dataset's own by default.
    """
    about = dataset.about
    target = about.temperature if temperature is None else temperature
    if not (target > 0 and math.isfinite(target)):
        raise UserError(f"A temperature is a positive number of kelvin, not {target:g}.")
    if not len(dataset):
        return _unknown("there are no frames")
    beta, beta_data = 1 / (BOLTZMANN * target), 1 / (BOLTZMANN * about.temperature)
    everything, trajectories = np.arange(len(dataset)), list(dataset.trajectories())
    tempered = -(beta - beta_data) * dataset.energy(everything)
    note = "" if target == about.temperature else f", reweighted from {about.temperature:g} K to {target:g} K"
    windows = stored_windows(dataset.manifest)
    if windows:
        return _umbrella(dataset, trajectories, windows, beta_data, tempered, note)
    if "bias" in about.columns:
        log_weight = beta_data * dataset.column("bias", everything) + tempered
        return _biased(dataset, trajectories, log_weight, note)
    if about.bias is not None:
        return _unknown(f"the bias is not known as an energy ({about.bias})")
    how = f"unbiased frames{note or ' at the target temperature, all alike'}"
    return _judged(tempered, how, _inefficiency(tempered, trajectories))


def _unknown(why: str) -> FrameWeights:
    return FrameWeights(None, None, None, why)


def _judged(log_weight: Array, how: str, inefficiency: float) -> FrameWeights:
    weights = LogWeights(torch.from_numpy(log_weight - log_weight.max()), {})
    return FrameWeights(weights.values, weights.ess_fraction, pareto_k(weights), how, inefficiency)


def _inefficiency(
    log_weight: Array, trajectories: list[Trajectory], group: NDArray[np.int64] | None = None
) -> float:
    """Return g of the log weights along time; each group is compared with its own mean alone."""
    groups: dict[int, list[Array]] = {}
    for t in trajectories:
        groups.setdefault(0 if group is None else int(group[t.index[0]]), []).append(log_weight[t.index])
    return len(log_weight) / sum(effective_samples(rows) for rows in groups.values())


def _biased(dataset: Dataset, trajectories: list[Trajectory], log_weight: Array, note: str) -> FrameWeights:
    """Weigh frames with a stored bias; every run that had a bias of its own is normalised by itself.

    Biases of different runs have no common zero. Each run alone estimates the target, and the runs are averaged by
    their effective numbers of frames.
    """
    group = _groups(dataset)
    names = np.unique(group)
    if len(names) == 1:
        how = f"frames of one bias, weighed by their stored bias energies{note}"
        return _judged(log_weight, how, _inefficiency(log_weight, trajectories))
    for name in names:
        rows = group == name
        own = LogWeights(torch.from_numpy(log_weight[rows]), {})
        log_weight[rows] += math.log(own.ess()) - float(torch.logsumexp(own.values, 0))
    how = (
        f"frames of {len(names)} runs, weighed by their stored bias energies; each run has a bias of its own, so each "
        f"is normalised by itself and counts by its effective number of frames{note}"
    )
    return _judged(log_weight, how, _inefficiency(log_weight, trajectories, group))


def _groups(dataset: Dataset) -> NDArray[np.int64]:
    """Return for every sample the number of the bias that it was simulated with."""
    names: dict[str, int] = {}
    of_trajectory: dict[int, int] = {}
    for shard in dataset.manifest.shards:
        told = shard.source.get("bias")
        shared = told.get("group") if isinstance(told, dict) else None
        for first, last in shard.trajectories:
            for number in range(first, last + 1):
                name = f"trajectory {number}" if shared is None else f"group {shared}"
                of_trajectory.setdefault(number, names.setdefault(name, len(names)))
    numbers, place = np.unique(dataset.column("trajectory", np.arange(len(dataset))), return_inverse=True)
    return np.array([of_trajectory[int(number)] for number in numbers], dtype=np.int64)[place]


def _umbrella(
    dataset: Dataset,
    trajectories: list[Trajectory],
    windows: dict[int, Window],
    beta: float,
    tempered: Array,
    note: str,
) -> FrameWeights:
    """Weigh frames of umbrella windows, joined by MBAR; no weights where some cannot be joined."""
    missing = [t.number for t in trajectories if t.number not in windows]
    if missing:
        return _unknown(f"trajectory {missing[0]} has no umbrella window, though others have one")
    frames = _WindowFrames.of(dataset, trajectories, windows, beta)
    chosen, standing = _thinned(trajectories)
    joined = solve_mbar(frames.bias(chosen), frames.simulation[chosen], standing * frames.count[chosen])
    fault = _fault(frames.states, joined)
    if fault is not None:
        return _unknown(fault)
    how = (
        f"{len(frames.states)} umbrella windows joined by MBAR, at least {joined.link:,.0f} effective frames shared "
        f"across any gap between them{note}"
    )
    inefficiency = len(frames.count) / float(frames.count.sum())
    return _judged(frames.log_weight(joined) + tempered, how, inefficiency)


@dataclass(frozen=True, eq=False)
class _WindowFrames:
    """Frames of umbrella windows, with what MBAR needs to know of each.

    Attributes:
        states: the windows that differ.
        beta: inverse temperature of the simulations, mol/kJ.
        coordinates: each coordinate that windows act on for all frames, ``(n,)``, by its atoms.
        simulation: number of the window that each frame comes from, ``(n,)``.
        count: 1/g, for how much each frame counts, ``(n,)``.
    """

    states: list[Window]
    beta: float
    coordinates: dict[tuple[int, ...], Array]
    simulation: NDArray[np.int64]
    count: Array

    @classmethod
    def of(
        cls, dataset: Dataset, trajectories: list[Trajectory], windows: dict[int, Window], beta: float
    ) -> "_WindowFrames":
        """Read all frames of a dataset whose trajectories have a window each."""
        states = list(dict.fromkeys(windows[t.number] for t in trajectories))
        simulation, count = np.empty(len(dataset), dtype=np.int64), np.empty(len(dataset))
        coordinates = _coordinates(dataset, states)
        for t in trajectories:
            window = windows[t.number]
            simulation[t.index] = states.index(window)
            series = window.difference(coordinates[window.atoms][t.index])
            count[t.index] = 1 / autocorrelation_time([series])
        return cls(states, beta, coordinates, simulation, count)

    def bias(self, rows: NDArray[np.int64]) -> Array:
        """Return the reduced bias of some frames under every window, ``(windows, rows)``."""
        return np.stack(
            [self.beta * window.energy(self.coordinates[window.atoms][rows]) for window in self.states]
        )

    def log_weight(self, joined: Mbar) -> Array:
        """Weigh all frames under the potential without bias, at the temperature of the simulations."""
        n = len(self.count)
        parts = np.array_split(np.arange(n), -(-n // _CHUNK))
        return np.concatenate([joined.log_weight(self.bias(rows), self.count[rows]) for rows in parts])


def _fault(states: list[Window], joined: Mbar) -> str | None:
    """Say why the free energies of windows may not be used; None where they may."""
    if joined.link < _LOOSE:
        return (
            f"the umbrella windows {_places(states, joined.parts)} share only {joined.link:.2g} effective frames with "
            "the others, so that nothing tells how the two parts compare: add windows between them, or weaken the "
            "springs"
        )
    if not joined.solved:
        return (
            f"MBAR does not settle on free energies for the {len(states)} umbrella windows (one misses its equation by "
            f"{joined.error:.1g} of its frames): check their centres and force constants"
        )
    return None


def _thinned(trajectories: list[Trajectory]) -> tuple[NDArray[np.int64], Array]:
    """Return frames for MBAR to be solved with, every so many along time, and how many each stands for."""
    stride = -(-sum(len(t.index) for t in trajectories) // _SOLVED)
    kept = [t.index[::stride] for t in trajectories]
    standing = [np.full(len(own), len(t.index) / len(own)) for t, own in zip(trajectories, kept, strict=True)]
    return np.concatenate(kept), np.concatenate(standing)


def _coordinates(dataset: Dataset, states: list[Window]) -> dict[tuple[int, ...], Array]:
    """Return each coordinate that windows act on for all frames, by its atoms."""
    kinds = {window.atoms: window for window in states}
    parts: dict[tuple[int, ...], list[Array]] = {atoms: [] for atoms in kinds}
    for start in range(0, len(dataset), _CHUNK):
        positions = dataset.positions(np.arange(start, min(start + _CHUNK, len(dataset))))
        for atoms, window in kinds.items():
            parts[atoms].append(window.coordinate(positions))
    return {atoms: np.concatenate(rows) for atoms, rows in parts.items()}


def _places(states: list[Window], part: NDArray[np.bool_]) -> str:
    """Name the centres of the smaller part."""
    smaller = part if part.sum() <= len(part) / 2 else ~part
    centres = [f"{window.centre:.3g}" for window, inside in zip(states, smaller, strict=True) if inside]
    shown = ", ".join(centres[:5]) + (", …" if len(centres) > 5 else "")
    return f"at {shown}"
