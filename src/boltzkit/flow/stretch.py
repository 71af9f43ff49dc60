"""A fixed change of units: the same scale and shift for every dim."""

import math

import torch
from torch import Tensor

from boltzkit.coordinates.bijection import Bijection

__all__ = ["Stretch"]


class Stretch(Bijection):
    """Multiply by a scale and add a shift; nothing is learned.

    Args:
        scale: positive.
        shift: where the latent's origin goes.

    >>> x, log_det = Stretch(10.0, -5.0).transform(torch.tensor([[0.0, 0.5, 1.0]]))
    >>> x.tolist(), round(float(log_det), 3)
    ([[-5.0, 0.0, 5.0]], 6.908)
    """

    def __init__(self, scale: float, shift: float) -> None:
        super().__init__()
        self.scale, self.shift = scale, shift

    def transform(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """Return ``(scale · z + shift, dim · log scale)``."""
        return z * self.scale + self.shift, self._log_det(z)

    def inverse(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return ``((x − shift) / scale, −dim · log scale)``."""
        return (x - self.shift) / self.scale, -self._log_det(x)

    def _log_det(self, values: Tensor) -> Tensor:
        return torch.full_like(values[..., 0], values.shape[-1] * math.log(self.scale))
