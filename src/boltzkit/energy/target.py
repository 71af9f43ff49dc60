"""The contract of every target energy: batched, differentiable, counted."""

from abc import ABC, abstractmethod

import torch
from torch import Tensor

from boltzkit.errors import UserError

__all__ = ["Target"]


class Target(ABC):
    """An unnormalised density p̃(x) = exp(−u(x)) given by its reduced energy u.

    Calling a target counts one evaluation per configuration, with or without the gradient. A configuration
    whose energy is not finite is the caller's to count: a target returns NaN or +inf as it is and never a
    stand-in.

    Attributes:
        name: how messages call the target.
        event_shape: shape of one configuration, ``(dim,)`` or ``(atoms, 3)``.
        evaluations: configurations evaluated so far.
    """

    name: str
    event_shape: torch.Size
    evaluations: int = 0

    def __call__(self, x: Tensor) -> Tensor:
        """Return the reduced energy, ``(..., *event_shape) -> (...)``; differentiable; counted."""
        self.evaluations += self.count(x)
        return self._energy(x)

    def energy_and_gradient(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return (u, ∂u/∂x), shapes ``(...)`` and ``(..., *event_shape)``; counted once."""
        with torch.enable_grad():
            leaf = x.detach().requires_grad_()
            energy = self(leaf)
            (gradient,) = torch.autograd.grad(energy.sum(), leaf)
        return energy.detach(), gradient

    def label(self, x: Tensor) -> Tensor:
        """Return energies of samples of a flow in float64 on the CPU, wherever the flow is; counted."""
        # MPS has no float64.
        here = x.cpu() if x.device.type == "mps" else x
        return self(here.double()).cpu().double()

    def count(self, x: Tensor) -> int:
        """Return how many configurations a batch holds, refusing a wrong event shape."""
        split = x.ndim - len(self.event_shape)
        if split < 0 or x.shape[split:] != self.event_shape:
            raise UserError(
                f"{self.name} takes configurations of shape {tuple(self.event_shape)}, "
                f"but the batch has shape {tuple(x.shape)}."
            )
        return x.shape[:split].numel()

    @property
    def log_z(self) -> float | None:
        """Log of ∫ exp(−u(x)) dx where it is known, else None."""
        return None

    @property
    def can_sample(self) -> bool:
        """Whether `sample` gives exact, independent samples."""
        return type(self).sample is not Target.sample

    def sample(self, n: int, generator: torch.Generator) -> Tensor:
        """Return n exact independent samples, ``(n, *event_shape)``, in float64."""
        raise UserError(f"{self.name} has no exact sampler: bring samples with --set data.path=FILE.")

    @abstractmethod
    def _energy(self, x: Tensor) -> Tensor:
        """The reduced energy itself, uncounted."""
