"""Log-dispersion: how far the log importance weights spread around their mean.

Signs, stated once: f(x) = −log q(x) − u(x) is the unnormalised log importance weight; at q = p it is log Z.
"""

from dataclasses import dataclass, field
from typing import Self

import torch
from torch import Tensor

from boltzkit.objective.mean import Total, local_total, weighted_mean
from boltzkit.objective.penalty import Huber, Penalty, Power

__all__ = ["LogDispersion"]


@dataclass(frozen=True)
class LogDispersion:
    r"""The log-dispersion $\mathbb E_r[\rho(f - c)]$, $c = \mathbb E_r[f]$, over any reference r (paper, Eq. 4).

    ρ(v) = |v|^p, or any other `Penalty`. Gradients flow through the centre
    too; at p = 2 that makes no difference, elsewhere it does. p = 2 is the log-variance. Alone it does not fix
    the density outside the reference (Proposition 2): use it beside a data objective.

    Args:
        p: exponent, at least 1; lower is less sensitive to outliers.
        penalty: ρ, where it is no power; p is not used then.
        total: how to sum over the batch; replace it to centre a batch that is spread over processes.

    >>> f = torch.tensor([1.0, 3.0])
    >>> float(LogDispersion(p=2.0)(-f, torch.zeros(2)))
    1.0
    """

    p: float = 1.0
    penalty: Penalty | None = None
    total: Total = field(default=local_total, kw_only=True)

    def __post_init__(self) -> None:
        Power(self.p)  # refuses what is no penalty

    @classmethod
    def huber(cls, delta: float = 1.0) -> Self:
        """Return the Huber variant: quadratic near the centre, linear in the tails."""
        return cls(penalty=Huber(delta))

    @property
    def rho(self) -> Penalty:
        """The penalty ρ of a deviation."""
        return Power(self.p) if self.penalty is None else self.penalty

    def __call__(
        self,
        log_prob: Tensor,
        energy: Tensor,
        weights: Tensor | None = None,
        centre: Tensor | None = None,
    ) -> Tensor:
        """Return the dispersion, ``(..., batch) -> (...)``; costs no energy evaluation.

        Args:
            log_prob: log q(x) on the reference.
            energy: reduced u(x) there. Not finite, or outside the support: left out, counted by the loop.
            weights: importance weights of the reference; they enter the centre and the mean alike.
            centre: a learned scalar ``(...)`` in place of the batch mean (trajectory balance).
        """
        if centre is None:
            centre = self.mean(log_prob, energy, weights)
        keep, log_weight = _log_weight(log_prob, energy)
        # Zero the excluded before ρ: |inf|^p has a NaN gradient that a mask applied later would let through.
        deviation = torch.where(keep, log_weight - centre.unsqueeze(-1), 0.0)
        return weighted_mean(self.rho(deviation), weights, keep=keep, total=self.total)

    def mean(self, log_prob: Tensor, energy: Tensor, weights: Tensor | None = None) -> Tensor:
        """Return the centre E[f] of a batch, ``(..., batch) -> (...)``."""
        keep, log_weight = _log_weight(log_prob, energy)
        return weighted_mean(log_weight, weights, keep=keep, total=self.total)


def _log_weight(log_prob: Tensor, energy: Tensor) -> tuple[Tensor, Tensor]:
    """Return which samples have one, and f; elsewhere the energy counts as zero."""
    keep = torch.isfinite(energy) & (log_prob != -torch.inf)
    return keep, -log_prob - torch.where(keep, energy, 0.0)
