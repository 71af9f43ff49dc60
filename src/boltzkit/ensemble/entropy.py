"""The target's entropy, which is the likelihood that a perfect model would have."""

import math

import torch
from torch import Tensor

from boltzkit.ensemble.blocks import sum_variance
from boltzkit.weights import Estimate, LogWeights

__all__ = ["likelihood_gap", "target_entropy"]


def target_entropy(weights: LogWeights, energy: Tensor, confidence: float = 0.95) -> Estimate:
    r"""Return H = ⟨u⟩ + log Z of the target, the NLL of a perfect model, from weighted samples of a flow.

    Both terms come from the same weights, and one sample moves their sum by

    $$\psi_i = \bar w_i\,(u_i - \langle u\rangle + 1) - 1/n .$$

    Args:
        weights: of n samples.
        energy: reduced energies, ``(n,)``; anything where there is no weight.
        confidence: of the interval.
    """
    share = weights.normalised()
    u = torch.where(share > 0, energy.detach().cpu().double(), 0.0)
    mean = (share * u).sum()
    moves = share * (u - mean + 1) - 1 / weights.n
    return Estimate.symmetric(float(mean) + weights.log_mean(), float(moves.norm()), confidence)


def likelihood_gap(
    log_prob: Tensor,
    energy: Tensor,
    log_z: float,
    log_z_error: float = 0.0,
    block: Tensor | None = None,
    confidence: float = 0.95,
) -> Estimate:
    r"""Return NLL minus the target's own on the same data, an estimate of KL(p‖q).

    $$\frac1n\sum_i \left(-\log q(x_i) - u(x_i)\right) - \log Z$$

    The energies' own spread, most of an NLL's noise, drops out of the difference.

    Args:
        log_prob: log q at data inside the flow's support, ``(n,)``.
        energy: reduced energies, ``(n,)``.
        log_z: exact, or estimated from other samples.
        log_z_error: its standard error.
        block: which data belong together, ``(n,)``; independent by default.
        confidence: of the interval.
    """
    f = -log_prob.double() - energy.double()
    block = torch.arange(len(f)) if block is None else block
    variance = sum_variance((f - f.mean()) / len(f), block)
    return Estimate.symmetric(float(f.mean()) - log_z, math.sqrt(variance + log_z_error**2), confidence)
