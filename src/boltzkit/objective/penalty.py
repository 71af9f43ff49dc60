"""Penalties of a log-dispersion: what a deviation v of the log importance weights costs, ρ(v) ≥ 0 with ρ(0) = 0."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from boltzkit.errors import UserError

__all__ = ["Huber", "Penalty", "Power"]

Penalty = Callable[[Tensor], Tensor]
"""ρ, element by element."""


@dataclass(frozen=True)
class Power:
    """ρ(v) = |v|^p; lower p is less sensitive to outliers.

    >>> Power(1.5)(torch.tensor([-4.0])).item()
    8.0
    """

    p: float

    def __post_init__(self) -> None:
        if self.p < 1:
            raise UserError(f"LogDispersion takes p of at least 1, not {self.p}.")

    def __call__(self, deviation: Tensor) -> Tensor:
        """Return ρ."""
        size = deviation.abs()
        # d/dv v^p at v = 0 is fine for p > 1, but torch's pow gives NaN in second derivatives; first ones suffice.
        return size if self.p == 1 else size**self.p


@dataclass(frozen=True)
class Huber:
    """ρ(v) = v² for |v| ≤ δ and 2δ|v| − δ² beyond: quadratic near the centre, linear in the tails.

    >>> Huber(1.0)(torch.tensor([0.5, -3.0])).tolist()
    [0.25, 5.0]
    """

    delta: float

    def __post_init__(self) -> None:
        if self.delta <= 0:
            raise UserError(f"LogDispersion.huber takes a positive delta, not {self.delta}.")

    def __call__(self, deviation: Tensor) -> Tensor:
        """Return ρ."""
        size = deviation.abs()
        return torch.where(size <= self.delta, size**2, 2 * self.delta * size - self.delta**2)
