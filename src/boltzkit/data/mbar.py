r"""Weights of samples from several biased simulations together: MBAR (Shirts and Chodera, 2008).

With $n_k$ samples of simulations k that differ by reduced biases $v_k$, the free energies solve

$$e^{-f_k} = \sum_n \frac{c_n\,e^{-v_k(x_n)}}{\sum_j n_j\,e^{f_j - v_j(x_n)}}, \qquad n_k = \sum_{n \in k} c_n,$$

where $c_n = 1/g$ counts a sample for less the longer its simulation remembers. The weight of a sample under the
potential without bias is its $c_n$ over the denominator, whichever simulation it came from.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["Mbar", "solve_mbar"]

_TOLERANCE = 1e-9
_STEPS = 200
_MISSED = 1e-5
"""Share of a simulation's samples by which its equation may be missed: far below what any sampling error is."""

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Mbar:
    """The solution.

    Attributes:
        free_energy: f_k, reduced, the first being 0, ``(simulations,)``.
        sizes: n_k, ``(simulations,)``.
        link: effective samples that hold the two loosest parts of the simulations together. The error of the free
            energy between them is about 1/√link.
        parts: which simulations are on one side of that cut, ``(simulations,)``.
        error: by what share of its samples the equation of some simulation is still missed; next to 0 when solved.
    """

    free_energy: Array
    sizes: Array
    link: float
    parts: NDArray[np.bool_]
    error: float

    @property
    def solved(self) -> bool:
        """Whether the free energies may be used."""
        return self.error < _MISSED

    def log_weight(self, bias: Array, count: Array) -> Array:
        """Weigh samples under the potential without bias, also others than those it was solved with.

        Args:
            bias: reduced bias of every sample under every simulation, ``(simulations, n)``.
            count: c, for how much each sample counts, ``(n,)``.

        Returns:
            log weights, not normalised, ``(n,)``.
        """
        return np.log(count) - _log_sum((np.log(self.sizes) + self.free_energy)[:, None] - bias)


def solve_mbar(bias: Array, simulation: NDArray[np.int64], count: Array | None = None) -> Mbar:
    """Solve for the free energies by Newton's method on the convex function that they minimise.

    Args:
        bias: reduced bias of every sample under every simulation, ``(simulations, n)``.
        simulation: where each sample comes from, ``(n,)``; every simulation has some.
        count: c, for how much each sample counts, ``(n,)``; 1 by default.
    """
    counts = np.ones(len(simulation)) if count is None else count
    sizes = np.asarray(np.bincount(simulation, counts, len(bias)), dtype=np.float64)
    if not (sizes > 0).all():
        raise ValueError("Every simulation has samples.")
    log_sizes = np.log(sizes)[:, None]
    # Where each simulation's own samples put it: biases may have any zero.
    free = np.array([bias[k, simulation == k].mean() for k in range(len(bias))])
    free = free - free[0]

    def log_denominator(f: Array) -> Array:
        return _log_sum(log_sizes + f[:, None] - bias)

    def target(f: Array) -> float:
        return float(counts @ log_denominator(f) - sizes @ f)

    for _ in range(_STEPS):
        shares = np.exp(log_sizes + free[:, None] - bias - log_denominator(free))
        slope = shares @ counts - sizes
        error = float(np.abs(slope / sizes).max())
        if error < _TOLERANCE:
            break
        curvature = np.diag(shares @ counts) - (shares * counts) @ shares.T
        # One free energy is arbitrary, and simulations apart make more directions flat: the least step leaves them.
        step = np.linalg.lstsq(curvature, slope, rcond=1e-12)[0]
        length, now = 1.0, target(free)
        while length > 1e-6 and not target(free - length * step) <= now:
            length /= 2
        if length <= 1e-6:
            # The plain iteration of the equations never goes uphill.
            length, step = 1.0, free + _log_sum((np.log(counts) - bias - log_denominator(free)).T)
        free = free - length * step
        free = free - free[0]
    link, parts = _weakest_link(shares, counts)
    return Mbar(free, sizes, link, parts, error)


def _weakest_link(shares: Array, counts: Array) -> tuple[float, NDArray[np.bool_]]:
    """Cut the simulations in two where they share the fewest samples, along the slowest mode of their overlap."""
    overlap = (shares * counts) @ shares.T
    if len(overlap) == 1:
        return float(overlap[0, 0]), np.array([True])
    root = np.sqrt(overlap.sum(1)).clip(min=1e-100)
    _, modes = np.linalg.eigh(overlap / np.outer(root, root))
    order = np.argsort(modes[:, -2] / root)
    cuts = [(float(overlap[np.ix_(order[:k], order[k:])].sum()), k) for k in range(1, len(order))]
    link, place = min(cuts)
    parts = np.zeros(len(order), dtype=bool)
    parts[order[:place]] = True
    return link, parts


def _log_sum(values: Array) -> Array:
    """Return log Σ exp over the first axis, without overflow."""
    top = values.max(0)
    return np.asarray(top + np.log(np.exp(values - top).sum(0)), dtype=np.float64)
