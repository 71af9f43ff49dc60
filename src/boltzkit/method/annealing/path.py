"""The next intermediate target: how far from the flow, at which temperature.

With reduced energy u, the log-density log q of the flow that drew the samples, and a temperature T in units of the
target's,

    log q'(x) = (1 − λ) log q(x) − λ u(x)/T   (up to a constant),   log w = λ (−u/T − log q).
"""

import math
from typing import NamedTuple

import numpy as np
import torch
from scipy import optimize
from torch import Tensor

from boltzkit.energy.regularised import regularise
from boltzkit.errors import UserError
from boltzkit.method.annealing.config import AnnealingConfig

__all__ = ["Waypoint", "choose", "divergence", "scheduled_temperature", "trust_region"]

_LOWEST = 0.1
"""Share of a buffer that its ceiling is counted from."""
_HIGHEST = 1e20
"""From which on all energies are alike."""
_MOST = 1_000_000
"""Samples that a quantile is taken of; torch takes no more than 2²⁴."""


class Waypoint(NamedTuple):
    """An intermediate target: the exponent λ of the tempered target, its temperature T ≥ 1, its ceiling of energies."""

    exponent: float
    temperature: float
    ceiling: float = 1e8

    def log_density(self, energy: Tensor, log_prob: Tensor) -> Tensor:
        """Return log q' up to a constant."""
        energy = regularise(energy, self.ceiling, _HIGHEST)
        if self.exponent == 1:
            return -energy / self.temperature
        return (1 - self.exponent) * log_prob - self.exponent * energy / self.temperature


def choose(
    config: AnnealingConfig, stage: int, energy: Tensor, log_prob: Tensor, caution: float = 1.0
) -> Waypoint:
    """Return the target of a stage.

    Args:
        config: the path and its bounds.
        stage: its number, from 0.
        energy: u of samples of the flow, ``(n,)``, finite.
        log_prob: their log q.
        caution: share of the usual trust.
    """
    if len(energy) < 2:
        raise UserError(
            "Fewer than two samples of the flow have a finite energy: check the molecule's coordinates, or give "
            "annealing.evaluations more samples per stage."
        )
    ceiling = float(torch.quantile(energy[:_MOST], _LOWEST)) + config.ceiling
    energy = regularise(energy, ceiling, _HIGHEST)
    if config.entropy is not None:
        bounded = entropy_bound(energy, log_prob, caution * (config.trust or math.inf), config.entropy)
        return bounded._replace(ceiling=ceiling)
    temperature = scheduled_temperature(config, stage)
    if config.path == "temperature" or config.trust is None:
        return Waypoint(1.0, temperature, ceiling)
    return Waypoint(
        trust_region(-energy / temperature - log_prob, caution * config.trust), temperature, ceiling
    )


def scheduled_temperature(config: AnnealingConfig, stage: int) -> float:
    """Return the temperature of a stage, which falls geometrically to 1 over the first stages.

    >>> config = AnnealingConfig(stages=9, hottest=4.0, cooling=0.5)
    >>> [round(scheduled_temperature(config, stage), 2) for stage in (0, 2, 4, 8)]
    [4.0, 2.0, 1.0, 1.0]
    """
    if config.path == "geometric":
        return 1.0
    last = max(1, math.ceil(config.cooling * config.stages) - 1)
    return float(config.hottest ** max(0.0, 1 - stage / last))


def divergence(log_weight: Tensor) -> float:
    r"""Return $\sum_i \bar w_i \log(n \bar w_i)$, the KL divergence of the weighted samples from the equal ones."""
    log_share = torch.log_softmax(log_weight.double(), dim=0)
    share = log_share.exp()
    return float((share * torch.where(share > 0, log_share, 0.0)).sum()) + math.log(len(log_weight))


def trust_region(log_ratio: Tensor, bound: float) -> float:
    """Return the largest λ in [0, 1] for which weights ∝ exp(λ log_ratio) stay within the bound, by bisection."""
    if divergence(log_ratio) <= bound:
        return 1.0
    # The divergence grows with λ. In log λ, which starts near 10⁻⁴ where energies are far from any equilibrium.
    low, high = -60.0, 0.0
    for _ in range(60):
        middle = 0.5 * (low + high)
        if divergence(math.exp(middle) * log_ratio) <= bound:
            low = middle
        else:
            high = middle
    return math.exp(low)


def entropy_bound(energy: Tensor, log_prob: Tensor, trust: float, entropy: float) -> Waypoint:
    r"""Return the target with bounds on the divergence and on the loss of entropy, by the dual of both.

    Multipliers η, ω ≥ 0 make it $q' \propto (q^\eta e^{-u})^{1/(1+\eta+\omega)}$, and maximise the concave
    $-\eta\varepsilon_{tr} - \omega(\varepsilon_{ent} - H(q)) - (1+\eta+\omega)\log Z(\eta,\omega)$.
    """
    own = -float(log_prob.mean())

    def loss(multipliers: np.ndarray) -> float:
        eta, omega = np.exp(multipliers)
        total = 1 + eta + omega
        log_z = torch.logsumexp((eta * log_prob - energy) / total - log_prob, 0) - math.log(len(energy))
        bounded = eta * trust if math.isfinite(trust) else 0.0
        return float(bounded + omega * (entropy - own) + total * log_z)

    lowest = -20.0 if math.isfinite(trust) else -40.0
    found = optimize.minimize(loss, np.array([3.0, 0.0]), method="Nelder-Mead", bounds=[(lowest, 16.0)] * 2)
    eta, omega = np.exp(found.x)
    return Waypoint(float((1 + omega) / (1 + eta + omega)), float(1 + omega))
