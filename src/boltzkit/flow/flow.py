"""A normalizing flow: a base distribution carried to data by a bijection."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import torch
from torch import Tensor, nn

from boltzkit.coordinates.bijection import Bijection
from boltzkit.errors import UserError
from boltzkit.flow.base import Base

__all__ = ["Flow", "Samples"]


class Samples(NamedTuple):
    """Samples of a flow with their exact log-densities."""

    x: Tensor
    log_prob: Tensor


class Flow(nn.Module):
    r"""The density $\log q(x) = \log q_0(z) + \log|\partial z/\partial x|$ with z = inverse(x).

    Args:
        base: distribution of the latent.
        bijection: the learned map.
        replicas: shape of the leading axes of independent parameter sets; ``()`` for one flow.
        event_shape: shape of one sample of the data; None for that of the latent, ``(dim,)``. A chain that ends in
            internal coordinates has ``(atoms, 3)``.
    """

    def __init__(
        self,
        base: Base,
        bijection: Bijection,
        replicas: tuple[int, ...] = (),
        event_shape: tuple[int, ...] | None = None,
    ) -> None:
        super().__init__()
        self.base, self.bijection, self.replicas = base, bijection, replicas
        self.event_shape = torch.Size((base.dim,) if event_shape is None else event_shape)

    def log_prob(self, x: Tensor) -> Tensor:
        """Return log q(x), ``(*replicas, batch, *event_shape) -> (*replicas, batch)``; −inf outside the support."""
        if x.shape[-len(self.event_shape) :] != self.event_shape:
            raise UserError(
                f"The flow takes samples of shape {tuple(self.event_shape)}; the batch has shape {tuple(x.shape)}."
            )
        z, log_det = self.bijection.inverse(x)
        return self.corrected(x, self.base.log_prob(z) + log_det)

    def corrected(self, x: Tensor, log_prob: Tensor) -> Tensor:
        """Return the density that weights are made of; of most flows the density itself."""
        return log_prob

    def sample(self, n: int, generator: torch.Generator | Sequence[torch.Generator]) -> Samples:
        """Draw n samples per replica with log q from the same pass, differentiable in the parameters.

        With one generator per replica, each draws what a flow of its own would draw.
        """
        return self.from_latent(self.latent(n, generator))

    def latent(self, n: int, generator: torch.Generator | Sequence[torch.Generator]) -> Tensor:
        """Draw what n samples per replica come from, ``(*replicas, n, dim)``."""
        if isinstance(generator, torch.Generator):
            z = self.base.sample((*self.replicas, n), generator)
        else:
            z = torch.stack([self.base.sample((n,), own) for own in generator])
        parameter = next(self.parameters(), None)
        return z if parameter is None else z.to(parameter)

    def from_latent(self, z: Tensor) -> Samples:
        """Carry latents to samples, with the density that their weights are to be made of."""
        x, log_det = self.bijection.transform(z)
        return Samples(x, self.corrected(x, self.base.log_prob(z) - log_det))

    @contextmanager
    def evaluating(self) -> Iterator["Flow"]:
        """Use the flow as the fixed density it stands for (running statistics), then restore its mode."""
        was_training = self.training
        self.eval()
        try:
            yield self
        finally:
            self.train(was_training)
