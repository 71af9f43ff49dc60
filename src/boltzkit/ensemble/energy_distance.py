"""How far apart two distributions of energies are: their 2-Wasserstein distance, with its error and its floor."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from boltzkit.ensemble.blocks import even_blocks, sum_variance
from boltzkit.ensemble.divergence import null_corrected
from boltzkit.errors import UserError
from boltzkit.randomness import generator
from boltzkit.weights import LogWeights, normal_quantile

__all__ = ["Distance", "energy_distance", "wasserstein_1d"]

_REPEATS = 10
"""Pairs of samples that a floor is averaged over."""


@dataclass(frozen=True)
class Distance:
    """A 2-Wasserstein distance between samples of data and of a model.

    Attributes:
        value: in the unit of what is compared; reduced (k_BT) for energies, radians for angles.
        standard_error: spread of the value over repetitions with as many data and samples.
        low: lower end of the interval of confidence for the mean of such repetitions; not below zero.
        high: its upper end.
        floor: what two samples of these sizes from one distribution give.
        n: samples on each side; of the model's after resampling.
        n_failed: samples without a finite value, left out.
        confidence: of the interval.
    """

    value: float
    standard_error: float
    low: float
    high: float
    floor: float
    n: int
    n_failed: int
    confidence: float = 0.95


def energy_distance(
    data: Tensor,
    energy: Tensor,
    weights: LogWeights | None = None,
    *,
    block: Tensor | None = None,
    seed: int = 0,
    confidence: float = 0.95,
) -> Distance:
    r"""Return W₂ between the energies of data and of model samples, reduced like they are.

    $$W_2^2 = \int_0^1 \left(F^{-1}(t) - G^{-1}(t)\right)^2 dt$$

    Weighted samples are first resampled to as many, as in the paper. A single unphysical energy of a flow outweighs
    everything in the raw distance, which is why the paper gives the resampled one only.

    Args:
        data: energies of the target's samples, ``(n,)``.
        energy: energies of the model's samples, ``(m,)``.
        weights: of the model's samples; none leaves them as they are.
        block: which data belong together, ``(n,)``; independent by default.
        seed: of the resampling.
        confidence: of the interval.
    """
    block = even_blocks(len(data)) if block is None else block
    finite = data.isfinite()
    drawn, effective, failed = _model_side(energy, weights, seed)
    failed += int((~finite).sum())
    a, block_a = data[finite].double(), block[finite]
    squared, potential_a, potential_b = _transport(a, drawn)
    found = (
        _spread(potential_a, block_a) + _spread(potential_b, even_blocks(len(drawn))) * len(drawn) / effective
    )
    sizes = _effective(a, block_a), effective
    null = _null(torch.cat([a, drawn]), sizes, generator(seed, "energy floor"))
    error = math.sqrt(null_corrected(found, float(null.var())))
    value = math.sqrt(squared)
    half = normal_quantile(confidence) * error
    low, high = (math.sqrt(max(squared + side * half, 0.0)) for side in (-1, 1))
    one = error / (2 * value) if value > 0 else 0.0
    return Distance(value, one, low, high, float(null.sqrt().mean()), len(drawn), failed, confidence)


def wasserstein_1d(a: Tensor, b: Tensor) -> float:
    """Return W₂ between two samples of numbers, ``(n,)`` and ``(m,)``, exactly.

    >>> wasserstein_1d(torch.tensor([0.0, 1.0]), torch.tensor([2.0, 3.0]))
    2.0
    """
    return math.sqrt(_squared(a.double().sort().values, b.double().sort().values))


def _model_side(energy: Tensor, weights: LogWeights | None, seed: int) -> tuple[Tensor, float, int]:
    """Return the model's energies, resampled by weights, the number they are worth, and how many are left out."""
    finite = energy.isfinite()
    failed = int((~finite).sum())
    if weights is None:
        if failed == len(energy):
            raise UserError("None of the model's energies is finite: check the flow and the energy.")
        return energy[finite].double(), float(len(energy) - failed), failed
    index = weights.resample(weights.n, generator(seed, "resampled energies"))
    # Weights and the resampling add their noise.
    return energy[index].double(), 1 / (1 / weights.ess() + 1 / weights.n), failed


def _cuts(n: int, m: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return the pieces of (0, 1) on which both quantile functions are constant: their lengths and places in both."""
    if n == m:
        place = torch.arange(n)
        return torch.full((n,), 1 / n, dtype=torch.float64), place, place
    # Ends k/n and j/m over the common denominator, so that equal ones are equal.
    ends = torch.unique(torch.cat([torch.arange(1, n + 1) * m, torch.arange(1, m + 1) * n]))
    lengths = torch.diff(ends, prepend=ends.new_zeros(1)).double() / (n * m)
    return lengths, (ends - 1) // m, (ends - 1) // n


def _squared(a: Tensor, b: Tensor) -> float:
    lengths, i, j = _cuts(len(a), len(b))
    return float((lengths * (a[i] - b[j]).square()).sum())


def _transport(a: Tensor, b: Tensor) -> tuple[float, Tensor, Tensor]:
    r"""Return W₂² and the Kantorovich potentials at both samples: what W₂² gains where a sample puts mass.

    The potential of a follows from $\varphi'(x) = 2(x - T(x))$ with T the monotone map, that of b from
    $\varphi(x) + \psi(T(x)) = (x - T(x))^2$.
    """
    order_a, order_b = a.argsort(), b.argsort()
    x, y = a[order_a], b[order_b]
    lengths, i, j = _cuts(len(x), len(y))
    gap = x[i] - y[j]
    # Along the pieces either x or y takes a step: each step of x adds 2(x − y) dx on average over the step.
    step = torch.diff(x[i], prepend=x[:1])
    along = torch.cumsum(2 * gap * step - step.square(), 0)
    along = along - (lengths * along).sum()
    phi, psi = torch.empty_like(a), torch.empty_like(b)
    phi[order_a[i]] = along
    psi[order_b[j]] = gap.square() - along
    return float((lengths * gap.square()).sum()), phi, psi


def _spread(values: Tensor, block: Tensor) -> float:
    """Return the variance of a mean of values."""
    return sum_variance((values - values.mean()) / len(values), block)


def _effective(values: Tensor, block: Tensor) -> float:
    """Return how many independent samples would know their mean as well."""
    independent, found = float(values.var()) / len(values), _spread(values, block)
    return len(values) * min(independent / found, 1.0) if found > 0 else float(len(values))


def _null(pooled: Tensor, sizes: tuple[float, float], random: torch.Generator) -> Tensor:
    """Return W₂² between pairs of samples of one distribution, the two together, ``(repeats,)``.

    Both of a pair have one size, that of the same 1/n + 1/m, to which W₂² is proportional.
    """
    n = max(round(2 / sum(1 / size for size in sizes)), 1)
    found = []
    for _ in range(_REPEATS):
        pair = [pooled[torch.randint(len(pooled), (n,), generator=random)] for _ in sizes]
        found.append(_squared(pair[0].sort().values, pair[1].sort().values))
    return torch.tensor(found, dtype=torch.float64)
