"""The two-dimensional double well of Boltzmann generators (Noé et al., 2019)."""

import math
from typing import final

import torch
from torch import Tensor

from boltzkit.energy.quartic_law import QuarticLaw
from boltzkit.energy.target import Target

__all__ = ["DoubleWell"]


@final
class DoubleWell(Target):
    r"""A tilted double well along x₁ and a harmonic oscillator along x₂.

    $$u(x) = a x_1^4 - b x_1^2 + c x_1 + \tfrac12 x_2^2$$

    The defaults a = 1, b = 6, c = 1 are those of the code of Noé et al., "Boltzmann generators", Science 365
    (2019): wells near x₁ = −1.77 and 1.69, 10.8 and 7.3 below the barrier. Midgley et al., "Flow annealed
    importance sampling bootstrap" (ICLR 2023), use c = −0.5.

    Args:
        a: weight of the quartic, above zero.
        b: weight of the parabola.
        c: tilt; above zero the left well is the deeper one.
    """

    name = "double-well"
    event_shape = torch.Size([2])

    def __init__(self, a: float = 1.0, b: float = 6.0, c: float = 1.0) -> None:
        self.law = QuarticLaw(a, b, c)

    @property
    def log_z(self) -> float:
        """The quadrature along x₁ (to 1e-10, done once) plus ½ log 2π for the oscillator."""
        return self.law.log_z + 0.5 * math.log(2 * math.pi)

    def sample(self, n: int, generator: torch.Generator) -> Tensor:
        """Draw x₁ by exact rejection and x₂ from the standard normal."""
        oscillator = torch.randn(n, generator=generator, device=generator.device, dtype=torch.float64)
        return torch.stack([self.law.sample(n, generator), oscillator], dim=-1)

    def _energy(self, x: Tensor) -> Tensor:
        return self.law.energy(x[..., 0]) + 0.5 * x[..., 1] ** 2
