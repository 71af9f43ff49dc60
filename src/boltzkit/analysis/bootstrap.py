"""Intervals for any statistic of weighted samples, where no formula is at hand: medians, entropies, ratios."""

from collections.abc import Callable

import torch
from torch import Tensor

from boltzkit.ensemble import Ensemble
from boltzkit.errors import UserError
from boltzkit.randomness import generator
from boltzkit.weights import Estimate

__all__ = ["bootstrap"]

_NUMBERS = 1 << 22
"""Weights in memory at a time, 32 MB."""


def bootstrap(
    ensemble: Ensemble,
    statistic: Callable[[Tensor], Tensor],
    *,
    repeats: int = 500,
    seed: int = 0,
    confidence: float = 0.95,
) -> Estimate:
    r"""Return a statistic with its interval by a bootstrap of independent samples.

    Every repetition counts each sample drawn, failed ones too, by a Poisson number of mean 1, and weighs it by that
    number times its importance weight. The interval holds the middle quantiles of the repetitions. Like the formulas
    elsewhere it needs weights of finite variance, and cannot see what was never drawn.

    Args:
        ensemble: weighted samples.
        statistic: from normalised weights of all samples to a number, for several sets of weights at once,
            ``(sets, n) -> (sets,)``; samples of weight zero must not count.
        repeats: repetitions.
        seed: of the repetitions; the same seed gives the same interval.
        confidence: of the interval.

    >>> x = torch.linspace(-1.0, 1.0, 201, dtype=torch.float64)
    >>> ensemble = Ensemble.from_samples(x, torch.zeros(201), torch.zeros(201))
    >>> found = bootstrap(ensemble, lambda share: share @ x)
    >>> found.low < 0 < found.high
    True
    """
    if repeats < 2:
        raise UserError(f"A bootstrap needs at least 2 repetitions, not {repeats}.")
    weights = ensemble.weights.normalised()
    value = float(statistic(weights[None])[0])
    chunk = max(1, _NUMBERS // len(weights))
    found = []
    for start in range(0, repeats, chunk):
        rows = min(chunk, repeats - start)
        # A generator for each repetition would be slow; one for each chunk is a function of seed and n all the same.
        random = generator(seed, "bootstrap", start)
        counts = torch.poisson(torch.ones(rows, len(weights), dtype=torch.float64), generator=random)
        drawn = counts * weights
        # With a handful of weighted samples a repetition may have none of them, and says nothing.
        drawn = drawn[drawn.sum(1) > 0]
        found.append(statistic(drawn / drawn.sum(1, keepdim=True)))
    spread = torch.cat(found).double()
    side = torch.tensor([0.5 * (1 - confidence), 0.5 * (1 + confidence)], dtype=torch.float64)
    low, high = torch.quantile(spread, side).tolist()
    return Estimate(value, min(low, value), max(high, value), float(spread.std()), confidence)
