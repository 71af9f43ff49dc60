"""Where annealing moves: the flow's density and the target's, with their gradients, in one set of coordinates."""

from typing import cast

import torch
from torch import Tensor

from boltzkit.coordinates import InternalCoordinates
from boltzkit.coordinates.bijection import Bijection
from boltzkit.energy import Target
from boltzkit.flow import Chain, Flow
from boltzkit.ranks import spread_over_ranks
from boltzkit.simulate import InternalSpace, PlainSpace, Space
from boltzkit.simulate.space import Evaluated

__all__ = ["Bridge"]


class Bridge(Space):
    """The unit box of internal coordinates, or the target's own coordinates, with both densities.

    In `Evaluated`, the energy is −log p̃(y) and the measure is log q(y), both as densities in y: moves that give them
    exponents walk on everything between the flow and the target.

    Args:
        flow: the flow; of a molecule, its last link is the internal coordinates.
        target: the counted energy.
    """

    def __init__(self, flow: Flow, target: Target) -> None:
        self.target = target
        *learned, last = flow.bijection.links if isinstance(flow.bijection, Chain) else [flow.bijection]
        self._outer = last if isinstance(last, InternalCoordinates) else None
        if self._outer is not None:
            self._inner = Flow(flow.base, Chain(cast(Bijection, link) for link in learned))
            self._walls: Space = InternalSpace(self._outer, target)
        else:
            self._inner, self._walls = flow, PlainSpace(target)
        self._flow = flow
        self.event_shape, self.scale = self._walls.event_shape, self._walls.scale

    def start(self, n: int, generator: torch.Generator) -> Evaluated:
        """Draw samples of the flow and evaluate both densities: one energy each."""
        with torch.no_grad(), self._flow.evaluating():
            latent = self._inner.latent(n, generator)
            (y,) = spread_over_ranks(lambda z: (self._inner.from_latent(z).x,), latent)
        return self.evaluate(y.unsqueeze(0))

    def evaluate(self, y: Tensor) -> Evaluated:
        """Evaluate a batch: one energy with its gradient each, shared out over ranks."""
        return Evaluated(*spread_over_ranks(self._evaluated, y, axis=1))

    def _evaluated(self, y: Tensor) -> Evaluated:
        found = self._walls.evaluate(y)
        log_q, slope = self._density(found.y)
        # Beyond the flow's support both densities are zero there; an infinite energy alone refuses the move.
        inside = log_q.isfinite()
        energy = torch.where(inside, found.energy - found.log_measure, torch.inf)
        return Evaluated(
            found.y,
            energy,
            found.energy_slope - found.measure_slope,
            torch.where(inside, log_q, 0.0),
            torch.nan_to_num(slope, 0.0, 0.0, 0.0),
        )

    def finish(self, walkers: Evaluated) -> tuple[Tensor, Tensor, Tensor]:
        """Return configurations with the target's reduced energy and log q there, at no further evaluation."""
        if self._outer is None:
            return walkers.y, walkers.energy, walkers.log_measure
        with torch.no_grad():
            x, log_det = self._outer.transform(walkers.y)
        return x, walkers.energy + log_det, walkers.log_measure - log_det

    def positions(self, y: Tensor) -> Tensor:
        """Return configurations as the target takes them."""
        return self._walls.positions(y)

    def coordinates(self, x: Tensor) -> Tensor:
        """Return y of configurations."""
        return self._walls.coordinates(x)

    def _density(self, y: Tensor) -> tuple[Tensor, Tensor]:
        # Moves lead with (temperatures, walkers); a flow without replicas takes one batch.
        leaf = y.detach().flatten(0, 1).requires_grad_()
        with torch.enable_grad(), self._flow.evaluating():
            log_q = self._inner.log_prob(leaf)
            (slope,) = torch.autograd.grad(log_q.sum(), leaf)
        return log_q.detach().reshape(y.shape[:2]), slope.reshape(y.shape)
