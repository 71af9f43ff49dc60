"""Data of a Cartesian flow: centred, turned at random, and moved by Gaussian noise of the centre."""

import math
from dataclasses import dataclass
from typing import NamedTuple, Self

import torch
from torch import Tensor

from boltzkit.coordinates.centre import Correction, centre_energy
from boltzkit.errors import UserError

__all__ = ["Augmentation", "Augmented", "centred_scale", "random_rotations"]


class Augmented(NamedTuple):
    """Configurations in the augmented space, and the gradient of its energy −log p_aug there, where it was given."""

    x: Tensor
    gradient: Tensor | None


@dataclass(frozen=True)
class Augmentation:
    r"""What is done to data so that a flow on all of $\mathbb R^{3N}$ can learn them.

    $$x = R\,x^\circ + t, \qquad R \text{ uniform in } SO(3), \quad t \sim \mathcal N(0, \sigma^2)$$

    A centred molecule fills no volume: the noise t of its centre gives it one, and is taken out again of the flow's
    density (`log_prob`). The energy must not depend on how the molecule is turned, so that labels stay what they are.

    Args:
        n_atoms: number of atoms N.
        sigma: nm: standard deviation of the centre in each direction.
    """

    n_atoms: int
    sigma: float

    def __post_init__(self) -> None:
        if self.n_atoms < 1 or not (math.isfinite(self.sigma) and self.sigma > 0):
            raise UserError(
                f"Augmentation needs atoms and a finite noise of the centre above zero, not {self.n_atoms} atoms and "
                f"{self.sigma} nm."
            )

    @classmethod
    def for_scale(cls, n_atoms: int, scale: float) -> Self:
        """Return the usual noise, scale/√N: 1/√N where data are divided by their standard deviation ``scale``, nm."""
        return cls(n_atoms, scale / math.sqrt(n_atoms))

    def centre(self, x: Tensor) -> Tensor:
        """Return x° = x − x̄, ``(..., atoms, 3)``."""
        self._check(x)
        return x - x.mean(-2, keepdim=True)

    def augment(self, x: Tensor, generator: torch.Generator) -> Tensor:
        """Return configurations ``(..., atoms, 3)``, centred, turned and moved, each by its own draw."""
        turns, shifts = self._draw(x, generator)
        return self.centre(x) @ turns.mT + shifts

    def augment_labels(self, x: Tensor, gradient: Tensor | None, generator: torch.Generator) -> Augmented:
        """Return what `augment` would, with the gradient of the augmented energy there.

        The gradient turns along with the atoms and gains t/(N σ²) on each of them. Its mean over the atoms, zero for a
        molecule but for rounding, is taken out: the energy is that of the centred configuration.

        Args:
            x: configurations, ``(..., atoms, 3)`` nm.
            gradient: ∂u/∂x at x°, like x, where it is wanted.
            generator: of turns and noise.
        """
        turns, shifts = self._draw(x, generator)
        moved = self.centre(x) @ turns.mT + shifts
        if gradient is not None:
            gradient = self.centre(gradient) @ turns.mT + shifts / (self.n_atoms * self.sigma**2)
        return Augmented(moved, gradient)

    def log_prob(self, x: Tensor, correction: Correction = "gaussian") -> Tensor:
        """Return log p_aug(x) − log p(x°) = log N(x̄ | 0, σ²) − 3/2 log N, ``(..., atoms, 3) -> (...)``.

        Args:
            x: configurations.
            correction: which law of the centre to take; see `centre_energy`.
        """
        self._check(x)
        return -centre_energy(x.mean(-2), self.n_atoms, self.sigma, correction)

    @property
    def mean_log_prob(self) -> float:
        """Its mean over the noise, −3/2 (1 + log 2πσ²N): what published likelihoods have and ours have not."""
        return -1.5 * (1 + math.log(2 * math.pi * self.sigma**2 * self.n_atoms))

    def _draw(self, x: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Return turns ``(..., 3, 3)`` and shifts ``(..., 1, 3)`` for a batch, drawn in float64."""
        self._check(x)
        batch = x.shape[:-2]
        turns = random_rotations(batch.numel(), generator).reshape(*batch, 3, 3)
        noise = torch.randn(*batch, 1, 3, generator=generator, device=generator.device, dtype=torch.float64)
        return turns.to(x), (self.sigma * noise).to(x)

    def _check(self, x: Tensor) -> None:
        if x.shape[-2:] != (self.n_atoms, 3):
            raise UserError(f"Configurations are of shape (..., {self.n_atoms}, 3), not {tuple(x.shape)}.")


def random_rotations(n: int, generator: torch.Generator) -> Tensor:
    """Return n rotation matrices, uniform in SO(3), ``(n, 3, 3)`` in float64: from unit quaternions."""
    quaternions = torch.randn(n, 4, generator=generator, device=generator.device, dtype=torch.float64)
    w, x, y, z = (quaternions / quaternions.norm(dim=-1, keepdim=True)).unbind(-1)
    rows = [
        1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y),
        2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x),
        2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y),
    ]  # fmt: skip
    return torch.stack(rows, dim=-1).reshape(n, 3, 3)


def centred_scale(x: Tensor) -> float:
    """Return the standard deviation of centred coordinates over all atoms, directions and samples, nm.

    >>> centred_scale(torch.tensor([[[0.0, 0.0, 0.0], [2.0, 2.0, 2.0]]]))
    1.0
    """
    centred = (x - x.mean(-2, keepdim=True)).to(torch.float64)
    return math.sqrt(float((centred * centred).mean()))
