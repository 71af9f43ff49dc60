"""Neal's funnel: one variable sets the width of all others."""

import math
from typing import final

import torch
from torch import Tensor

from boltzkit.energy.target import Target
from boltzkit.energy.validation import at_least, positive

__all__ = ["Funnel"]


@final
class Funnel(Target):
    r"""A Gaussian neck v = x₁ and Gaussian others with variance e^v, normalised, so that log Z = 0.

    $$p(x) = \mathcal N(v \mid 0, s^2) \prod_{i=2}^d \mathcal N(x_i \mid 0, e^{v})$$

    Neal, "Slice sampling", Annals of Statistics 31 (2003), has d = 10 and s = 3.

    Args:
        dim: the dimension d, at least 2.
        scale: standard deviation s of the neck.
    """

    name = "funnel"

    def __init__(self, dim: int = 10, scale: float = 3.0) -> None:
        self.event_shape = torch.Size([at_least(dim, 2, self.name, "a dim")])
        self.scale = positive(scale, self.name, "scale")

    @property
    def log_z(self) -> float:
        """Zero: the funnel is normalised."""
        return 0.0

    def sample(self, n: int, generator: torch.Generator) -> Tensor:
        """Draw the neck, then the others with its width."""
        noise = torch.randn(
            n, *self.event_shape, generator=generator, device=generator.device, dtype=torch.float64
        )
        neck = self.scale * noise[:, :1]
        return torch.cat([neck, (0.5 * neck).exp() * noise[:, 1:]], dim=-1)

    def _energy(self, x: Tensor) -> Tensor:
        neck, others = x[..., 0], x[..., 1:]
        dim = self.event_shape[0]
        # Scaling before squaring: exp(−v) alone overflows float32 at half the depth that exp(−v/2) does.
        standard = others * (-0.5 * neck).exp().unsqueeze(-1)
        log_normaliser = 0.5 * dim * math.log(2 * math.pi) + math.log(self.scale)
        gaussians = 0.5 * (neck / self.scale) ** 2 + 0.5 * (standard**2).sum(-1)
        return gaussians + 0.5 * (dim - 1) * neck + log_normaliser
