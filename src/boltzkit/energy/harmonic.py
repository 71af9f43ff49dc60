"""The anisotropic harmonic well, the target on which everything has a closed form."""

import math
from typing import Self, final

import torch
from torch import Tensor

from boltzkit.energy.target import Target
from boltzkit.errors import UserError

__all__ = ["Harmonic"]


@final
class Harmonic(Target):
    r"""A Gaussian written as an energy, not normalised.

    $$u(x) = \tfrac12 (x - x_0)^\top K (x - x_0), \qquad
      \log Z = \tfrac d2 \log 2\pi - \tfrac12 \log\det K$$

    Args:
        stiffness: symmetric, positive definite K, ``(dim, dim)``.
        centre: the minimum x₀, ``(dim,)``; the origin if None.
    """

    name = "harmonic"

    def __init__(self, stiffness: Tensor, centre: Tensor | None = None) -> None:
        self.stiffness = stiffness.to(torch.float64)
        self.event_shape = self.stiffness.shape[-1:]
        self._root = _cholesky(self.stiffness)
        self.centre = torch.zeros(self.event_shape) if centre is None else centre
        self.centre = self.centre.to(self.stiffness)
        if self.centre.shape != self.event_shape:
            raise UserError(
                f"harmonic has a stiffness of shape {tuple(stiffness.shape)}, "
                f"so its centre cannot have shape {tuple(self.centre.shape)}."
            )

    @classmethod
    def from_frequencies(cls, frequencies: Tensor, centre: Tensor | None = None) -> Self:
        """Return the well with K = diag(ω²): standard deviation 1/ω along each axis."""
        return cls(torch.diag(frequencies.to(torch.float64) ** 2), centre)

    @property
    def log_z(self) -> float:
        """The Gaussian integral, exactly; log det K comes from the Cholesky factor."""
        dim = self.event_shape[0]
        return 0.5 * dim * math.log(2 * math.pi) - float(self._root.diagonal().log().sum())

    def sample(self, n: int, generator: torch.Generator) -> Tensor:
        """Solve Lᵀ(x − x₀) = z for standard normal z, where K = L Lᵀ."""
        device = generator.device
        noise = torch.randn(n, *self.event_shape, generator=generator, device=device, dtype=torch.float64)
        # z as rows, so the system is (x − x₀) L = z.
        root = self._root.to(device)
        displacement: Tensor = torch.linalg.solve_triangular(root, noise, upper=False, left=False)
        return self.centre.to(device) + displacement

    def _energy(self, x: Tensor) -> Tensor:
        displacement = x - self.centre.to(x)
        return 0.5 * ((displacement @ self.stiffness.to(x)) * displacement).sum(-1)


def _cholesky(stiffness: Tensor) -> Tensor:
    """Return the lower factor L of K = L Lᵀ, refusing a matrix that has none."""
    square = stiffness.ndim == 2 and stiffness.shape[0] == stiffness.shape[1] > 0
    if square and torch.allclose(stiffness, stiffness.T):
        root: Tensor
        root, failed = torch.linalg.cholesky_ex(stiffness)
        if not failed and root.isfinite().all():
            return root
    raise UserError(
        "harmonic needs a symmetric, positive definite stiffness matrix: no frequency may be zero or missing."
    )
