"""Several bijections one after the other."""

from collections.abc import Iterable
from typing import cast

import torch
from torch import Tensor, nn

from boltzkit.coordinates.bijection import Bijection

__all__ = ["Chain"]


class Chain(Bijection):
    """Apply bijections in order from latent to data; log-determinants add up."""

    def __init__(self, links: Iterable[Bijection]) -> None:
        super().__init__()
        self.links = nn.ModuleList(links)

    def transform(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """Apply the first link first."""
        total = torch.zeros((), dtype=z.dtype, device=z.device)
        for link in self.links:
            z, log_det = cast(Bijection, link).transform(z)
            total = total + log_det
        return z, total

    def inverse(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Undo the last link first."""
        total = torch.zeros((), dtype=x.dtype, device=x.device)
        for link in reversed(self.links):
            x, log_det = cast(Bijection, link).inverse(x)
            total = total + log_det
        return x, total
