"""The contract of every map: two methods, each returning its value and its log-determinant together."""

from abc import ABC, abstractmethod

from torch import Tensor, nn

__all__ = ["Bijection"]


class Bijection(nn.Module, ABC):
    """An invertible, differentiable map between latent z and data x.

    Shapes are ``(..., batch, dim)`` for values and ``(..., batch)`` for log-determinants. Leading axes before the
    batch, where a bijection has them, are *replicas*: independent parameter sets trained side by side.
    """

    @abstractmethod
    def transform(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """Map latent to data: return ``(x, log|∂x/∂z|)``."""

    @abstractmethod
    def inverse(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Map data to latent: return ``(z, log|∂z/∂x|)``."""
