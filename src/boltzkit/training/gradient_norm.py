"""How steady a training is: the variance of the gradient norm, kept as moments between two lines of metrics."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

__all__ = ["add_norm", "no_norms", "sliding_variance", "summarise_norms"]


def no_norms(replicas: tuple[int, ...]) -> Tensor:
    """Return moments of nothing, ``(*replicas, 3)``: number, sum and sum of squares."""
    return torch.zeros(*replicas, 3, dtype=torch.float64)


def add_norm(moments: Tensor, norm: Tensor) -> Tensor:
    """Return the moments with one more norm, ``(*replicas,)``; one that is not finite is left out."""
    value = norm.detach().cpu().double()
    powers = torch.stack([torch.ones_like(value), value, value.square()], -1)
    return moments + torch.where(value.isfinite().unsqueeze(-1), powers, 0.0)


def summarise_norms(moments: Tensor) -> dict[str, Tensor]:
    """Return number, mean and variance (of the population) for a line of metrics; NaN where there is none."""
    number, total, squares = moments.unbind(-1)
    mean = total / number
    return {
        "gradient_norm_steps": number.long(),
        "gradient_norm_mean": mean,
        "gradient_norm_variance": (squares / number - mean.square()).clamp(min=0),
    }


def sliding_variance(lines: Sequence[Mapping[str, Any]], window: int) -> list[tuple[int, float]]:
    """Return (step, variance of the gradient norm over the last `window` steps) of one run's lines of metrics.

    The variance of joined stretches follows exactly from the number, mean and variance of each. Starts when the
    first whole window is over; the window is rounded to whole lines.

    >>> line = {"gradient_norm_steps": 1, "gradient_norm_variance": 0.0}
    >>> norms = [1.0, 3.0, 3.0]
    >>> sliding_variance([line | {"step": i + 1, "gradient_norm_mean": v} for i, v in enumerate(norms)], 2)
    [(2, 1.0), (3, 0.0)]
    """
    known = [line for line in lines if line.get("gradient_norm_steps")]
    found = []
    for last, line in enumerate(known):
        if line["step"] < window:
            continue
        part = [other for other in known[: last + 1] if other["step"] > line["step"] - window]
        n = sum(other["gradient_norm_steps"] for other in part)
        mean = sum(other["gradient_norm_steps"] * other["gradient_norm_mean"] for other in part) / n
        spread = sum(
            other["gradient_norm_steps"]
            * (other["gradient_norm_variance"] + (other["gradient_norm_mean"] - mean) ** 2)
            for other in part
        )
        found.append((int(line["step"]), spread / n))
    return found
