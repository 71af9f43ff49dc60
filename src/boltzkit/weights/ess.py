"""The effective sample size with its uncertainty, and its forward variant on samples of the target."""

import math
from dataclasses import dataclass

import torch

from boltzkit.errors import UserError
from boltzkit.weights.estimate import Estimate, normal_quantile
from boltzkit.weights.log_weights import LogWeights

__all__ = ["ForwardEss", "ess_interval", "forward_ess"]


def ess_interval(weights: LogWeights, confidence: float = 0.95) -> Estimate:
    r"""Return the ESS fraction e with a confidence interval by the delta method.

    With r = n w̄ the ESS is e = 1/⟨r²⟩, and one sample moves log e by ψ/n,

    $$\psi_i = 2 r_i - e\, r_i^2 - 1, \qquad
      \mathrm{se}(\log e) = \sqrt{\textstyle\sum_i \psi_i^2}\,/\,n .$$

    The interval is normal in logit e, which keeps it inside (0, 1). It needs no random numbers.

    It fails where every look at the drawn samples fails: it needs a finite fourth moment of w (a Pareto k
    below 0.25) to be exact and grows too narrow above; and samples never drawn, such as those of a missed
    mode, are in neither e nor its interval. Then both are too high, the more so the fewer samples there
    are.
    """
    n, e = weights.n, weights.ess_fraction
    if e == 0:
        return Estimate(0.0, 0.0, 0.0, math.nan, confidence)
    ratio = n * weights.normalised()
    log_error = float((2 * ratio - e * ratio**2 - 1).norm()) / n
    if 1 - e <= 1e-12:
        # Equal weights: logit e is infinite and there is nothing to be uncertain about.
        return Estimate(e, e, e, e * log_error, confidence)
    step = math.exp(min(normal_quantile(confidence) * log_error / (1 - e), 600.0))
    odds = e / (1 - e)
    low, high = odds / (step + odds), odds * step / (1 + odds * step)
    return Estimate(e, max(low, 1 / n), high, e * log_error, confidence)


@dataclass(frozen=True)
class ForwardEss:
    """The ESS fraction estimated on samples of the target.

    Attributes:
        fraction: the forward ESS over the target restricted to the support of q.
        n: samples of the target looked at.
        n_outside: samples where q has no density (log_prob = −inf), left out.
        n_failed: samples left out for any other reason.
    """

    fraction: float
    n: int
    n_outside: int
    n_failed: int


def forward_ess(weights: LogWeights) -> ForwardEss:
    r"""Return the ESS fraction from weights w = p̃/q on samples of the *target*, x ~ p.

    The ESS fraction tends to 1/E_q[(p/q)²] = 1/E_p[p/q]. With p = p̃/Z, E_p[p/q] = E_p[w]/Z, and
    E_p[1/w] = ∫ (p̃/Z)(q/p̃) dx = 1/Z for a normalised q that is covered by p. Together

    $$\mathrm{ESS}_\mathrm{fw} = \frac{1}{\langle w\rangle_p\,\langle 1/w\rangle_p} \le 1 .$$

    Unlike the reverse ESS it sees modes that q misses, so far as the samples of p visit them. It is
    dominated by the few samples with the largest p/q and is too high while those have not been seen; ⟨1/w⟩
    in turn is too low where q has mass that no sample of p visits. Samples where q has no density are left
    out and counted: over the whole target the forward ESS is zero as soon as there is one.

    Args:
        weights: log weights −u(x) − log q(x) on samples x of the target.
    """
    inside = weights.values[weights.values.isfinite()]
    n_outside = weights.failures.get("log_prob is -inf", 0)
    if len(inside) == 0:
        raise UserError(
            f"The flow has no density on any of the {weights.n} target samples: check that they are "
            "in the flow's coordinates and units."
        )
    log_ess = 2 * math.log(len(inside)) - torch.logsumexp(inside, 0) - torch.logsumexp(-inside, 0)
    return ForwardEss(float(log_ess.exp()), weights.n, n_outside, weights.n_failed - n_outside)
