"""Unweighted samples from weighted ones."""

import torch
from torch import Tensor

from boltzkit.errors import UserError
from boltzkit.weights import LogWeights

__all__ = ["systematic"]


def systematic(weights: LogWeights, n: int, generator: torch.Generator | None = None) -> Tensor:
    """Pick n samples with probability w̄ by systematic resampling, in ascending order, ``(n,)``.

    A comb of n equal steps runs along the cumulated weights: a sample of weight w̄ comes up ⌊n w̄⌋ or ⌈n w̄⌉ times, which
    is the least noise that resampling can add. Weightless samples never come up.

    Args:
        weights: of all samples.
        n: how many to pick.
        generator: draws where the comb begins; in the middle of a step by default, without any randomness.

    >>> systematic(LogWeights(torch.tensor([0.0, 0.0], dtype=torch.float64), {}), 4)
    tensor([0, 0, 1, 1])
    """
    if n < 1:
        raise UserError(f"At least one sample must be picked, not {n}.")
    offset = 0.5 if generator is None else float(torch.rand((), generator=generator, dtype=torch.float64))
    cumulative = weights.normalised().cumsum(0)
    teeth = (torch.arange(n, dtype=torch.float64) + offset) * (cumulative[-1] / n)
    # right=True: a weightless sample repeats its predecessor's sum and so is never the first one above.
    place = torch.searchsorted(cumulative, teeth, right=True)
    # Rounding may put the last tooth on the very end.
    last = int(weights.values.isfinite().nonzero()[-1])
    return place.clamp(max=last)
