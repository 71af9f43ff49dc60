"""Independent double wells side by side: the many-well of flow annealed importance sampling bootstrap."""

from typing import final

import torch
from torch import Tensor

from boltzkit.energy.double_well import DoubleWell
from boltzkit.energy.target import Target
from boltzkit.energy.validation import at_least
from boltzkit.errors import UserError

__all__ = ["ManyWell"]


@final
class ManyWell(Target):
    r"""A product of d/2 double wells on the pairs (x₁, x₂), (x₃, x₄), …, with 2^{d/2} modes.

    $$u(x) = \sum_{k=1}^{d/2} a x_{2k-1}^4 - b x_{2k-1}^2 + c x_{2k-1} + \tfrac12 x_{2k}^2$$

    The defaults are the 32-dimensional target of Midgley et al., "Flow annealed importance sampling
    bootstrap" (ICLR 2023): a = 1, b = 6, c = −0.5, whose Z per well is 11784.50927 √(2π).

    Args:
        dim: the even dimension d.
        a: weight of the quartic, above zero.
        b: weight of the parabola.
        c: tilt; above zero the left wells are the deeper ones.
    """

    name = "many-well"

    def __init__(self, dim: int = 32, a: float = 1.0, b: float = 6.0, c: float = -0.5) -> None:
        at_least(dim, 2, self.name, "a dim")
        if dim % 2:
            raise UserError(f"{self.name} needs an even dim, not {dim}: take {dim - 1} or {dim + 1}.")
        self.event_shape = torch.Size([dim])
        self.wells = dim // 2
        self.pair = DoubleWell(a, b, c)

    @property
    def log_z(self) -> float:
        """The log Z of one double well times their number."""
        return self.wells * self.pair.log_z

    def sample(self, n: int, generator: torch.Generator) -> Tensor:
        """Draw every pair from its double well."""
        return self.pair.sample(n * self.wells, generator).reshape(n, *self.event_shape)

    def _energy(self, x: Tensor) -> Tensor:
        # Past the pair's own counter: a configuration is one evaluation, however many wells it has.
        return self.pair._energy(x.reshape(*x.shape[:-1], self.wells, 2)).sum(-1)
