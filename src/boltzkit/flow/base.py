"""Base distributions of the latent: exact samples and exact log-densities."""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import cast

import torch
from torch import Tensor, nn

from boltzkit.errors import UserError

__all__ = ["Base", "Product", "StandardNormal", "StudentT", "TruncatedNormal", "Uniform"]


class Base(nn.Module, ABC):
    """A fixed distribution on ``(..., dim)``; log_prob is −inf outside its support."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.dim = dim

    @abstractmethod
    def sample(self, shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
        """Draw ``(*shape, dim)`` samples in float64 on the generator's device."""

    @abstractmethod
    def log_prob(self, z: Tensor) -> Tensor:
        """Return the log-density, ``(..., dim) -> (...)``."""


class StandardNormal(Base):
    """Independent standard Gaussians."""

    def sample(self, shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
        """Draw by torch's normal generator."""
        return torch.randn(
            *shape, self.dim, generator=generator, device=generator.device, dtype=torch.float64
        )

    def log_prob(self, z: Tensor) -> Tensor:
        """Return −|z|²/2 − dim/2 · log 2π."""
        return -0.5 * (z * z).sum(-1) - 0.5 * self.dim * math.log(2 * math.pi)


class Uniform(Base):
    """Uniform on the unit box."""

    def sample(self, shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
        """Draw by torch's uniform generator."""
        return torch.rand(*shape, self.dim, generator=generator, device=generator.device, dtype=torch.float64)

    def log_prob(self, z: Tensor) -> Tensor:
        """Return 0 inside the box, −inf outside."""
        return _minus_infinity_outside(z, (0.0 * z).sum(-1))


class TruncatedNormal(Base):
    """Independent Gaussians cut to the unit interval (the paper: mean 0.5, standard deviation 0.1)."""

    def __init__(self, dim: int, mean: float = 0.5, scale: float = 0.1) -> None:
        super().__init__(dim)
        self.mean, self.scale = mean, scale
        self._low, self._high = (_normal_cdf((edge - mean) / scale) for edge in (0.0, 1.0))

    def sample(self, shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
        """Invert the distribution function at uniform draws."""
        uniform = torch.rand(
            *shape, self.dim, generator=generator, device=generator.device, dtype=torch.float64
        )
        probability = self._low + (self._high - self._low) * uniform
        standard: Tensor = torch.special.ndtri(probability)
        return (self.mean + self.scale * standard).clamp(0.0, 1.0)

    def log_prob(self, z: Tensor) -> Tensor:
        """Return the Gaussian log-density plus the constant of the cut."""
        standard = (z - self.mean) / self.scale
        log_mass = math.log(self.scale * math.sqrt(2 * math.pi) * (self._high - self._low))
        return _minus_infinity_outside(z, -0.5 * (standard * standard).sum(-1) - self.dim * log_mass)


class StudentT(Base):
    """Independent Student-t variables: heavier tails than any Gaussian target."""

    def __init__(self, dim: int, degrees: int = 3) -> None:
        super().__init__(dim)
        self.degrees = degrees

    def sample(self, shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
        """Divide a Gaussian by the root of a χ² (a sum of ``degrees`` squared Gaussians) over its degrees."""
        normals = torch.randn(
            *shape,
            self.dim,
            self.degrees + 1,
            generator=generator,
            device=generator.device,
            dtype=torch.float64,
        )
        chi_squared = (normals[..., 1:] ** 2).sum(-1)
        return normals[..., 0] / (chi_squared / self.degrees).sqrt()

    def log_prob(self, z: Tensor) -> Tensor:
        """Return the sum of the one-dimensional log-densities."""
        nu = self.degrees
        constant = math.lgamma((nu + 1) / 2) - math.lgamma(nu / 2) - 0.5 * math.log(nu * math.pi)
        return (constant - (nu + 1) / 2 * torch.log1p(z * z / nu)).sum(-1)


class Product(Base):
    """Independent parts, each a distribution of some of the dims.

    Args:
        parts: distributions with the dims they stand for; every dim once. Parts without dims are left out.
    """

    order: Tensor

    def __init__(self, parts: Sequence[tuple[Base, Sequence[int]]]) -> None:
        parts = [(part, dims) for part, dims in parts if len(dims)]
        dims = [dim for _, part_dims in parts for dim in part_dims]
        if sorted(dims) != list(range(len(dims))) or any(part.dim != len(own) for part, own in parts):
            raise UserError(f"The parts of a product must share its dims among them, not {dims}.")
        super().__init__(len(dims))
        self.parts = nn.ModuleList(part for part, _ in parts)
        # Fixed by the architecture, so not part of a checkpoint.
        self.register_buffer("order", torch.tensor(dims), persistent=False)

    def sample(self, shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
        """Draw each part, one after the other."""
        drawn = torch.cat([part.sample(shape, generator) for part in self._bases()], dim=-1)
        return drawn.index_select(-1, torch.argsort(self.order).to(drawn.device))

    def log_prob(self, z: Tensor) -> Tensor:
        """Return the sum over the parts."""
        pieces = torch.split(z.index_select(-1, self.order), [part.dim for part in self._bases()], dim=-1)
        log_prob = [part.log_prob(piece) for part, piece in zip(self._bases(), pieces, strict=True)]
        return torch.stack(log_prob).sum(0)

    def _bases(self) -> list[Base]:
        return [cast(Base, part) for part in self.parts]


def _minus_infinity_outside(z: Tensor, value: Tensor) -> Tensor:
    """Cut a log-density to the unit box; NaN stays NaN, a failure for the caller to see."""
    return torch.where(((z < 0) | (z > 1)).any(-1), -torch.inf, value)


def _normal_cdf(value: float) -> float:
    return 0.5 * math.erfc(-value / math.sqrt(2))
