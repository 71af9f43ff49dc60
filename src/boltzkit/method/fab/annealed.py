"""Annealed importance sampling from the flow towards p^α q^(1−α) (Neal, 2001), with Hamiltonian moves."""

from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor

from boltzkit.method.fab.bridge import Bridge
from boltzkit.method.fab.config import FabConfig
from boltzkit.simulate.moves import hamiltonian
from boltzkit.simulate.space import Evaluated

__all__ = ["Annealed", "anneal"]


class Annealed(NamedTuple):
    """Annealed samples.

    Args:
        x: configurations as the target takes them, ``(n, *event)``.
        energy: reduced energy of the target there, ``(n,)``.
        log_weight: log of their importance weights for p^α q^(1−α), ``(n,)``; −inf for failed ones.
        log_prob: log q, ``(n,)``.
        accepted: share of accepted moves.
    """

    x: Tensor
    energy: Tensor
    log_weight: Tensor
    log_prob: Tensor
    accepted: float


def anneal(bridge: Bridge, config: FabConfig, step: float, generator: torch.Generator) -> Annealed:
    r"""Anneal a batch of samples of the flow.

    $$\log\pi_\beta = [(1-\beta) + \beta(1-\alpha)]\log q + \beta\alpha\log\tilde p$$

    for β in equal steps from 0 to 1; the weight grows by log π at the next β minus log π at this one, then the samples
    move at the next β. They do not move at β = 1, where that would change nothing in expectation.
    """
    walkers = bridge.start(config.annealed, generator)
    log_weight = torch.zeros_like(walkers.energy, dtype=torch.float64)
    rungs = torch.linspace(0, 1, config.intermediate + 2, dtype=torch.float64).tolist()
    rates = []
    for before, after in pairwise(rungs):
        log_weight += _log_density(walkers, after, config.order) - _log_density(walkers, before, config.order)
        if after < 1:
            exponents = _exponents(after, config.order)
            size, target = (walkers.y.new_full((1, 1), value) for value in (step, exponents[1]))
            moved = hamiltonian(walkers, bridge, target, size, config.leaps, generator, measure=exponents[0])
            walkers = moved.walkers
            rates.append(float(moved.accepted.double().mean()))
    good = log_weight.isfinite() & walkers.energy.isfinite()
    x, energy, log_prob = bridge.finish(walkers)
    weight = torch.where(good, log_weight, -torch.inf)
    return Annealed(x[0], energy[0].double(), weight[0], log_prob[0].double(), sum(rates) / len(rates))


def _exponents(beta: float, order: float) -> tuple[float, float]:
    """Return the exponents of q and of p̃."""
    return 1 - beta + beta * (1 - order), beta * order


def _log_density(walkers: Evaluated, beta: float, order: float) -> Tensor:
    of_flow, of_target = _exponents(beta, order)
    found = of_flow * walkers.log_measure.double()
    return found if of_target == 0 else found - of_target * walkers.energy.double()
