"""Averages of observables over an ensemble, each with its confidence interval."""

import math

import torch
from torch import Tensor

from boltzkit.analysis.observables import Observable
from boltzkit.analysis.resampling import systematic
from boltzkit.ensemble import Ensemble, weighted_mean
from boltzkit.errors import UserError
from boltzkit.weights import Estimate, LogWeights, normal_quantile

__all__ = ["average", "circular_mean"]

_SOME = 2_000
"""Samples that averages of slow observables use: their error is then 2.2 % of the observable's spread or more."""


def average(ensemble: Ensemble, observable: Observable, confidence: float = 0.95) -> Estimate:
    """Return the Boltzmann average of an observable, the circular mean of an angle.

    Slow observables are averaged over 2,000 samples that are picked by their weights. With the spread s of their values
    the variance is at most s² (1/2000 + 1/ESS): what the smaller number costs, and what the weights of all cost.
    """
    if observable.slow and ensemble.n > _SOME:
        return _of_some(ensemble, observable, confidence)
    mean = circular_mean if observable.periodic else weighted_mean
    return mean(ensemble.weights, observable.values(ensemble.x), confidence)


def _of_some(ensemble: Ensemble, observable: Observable, confidence: float) -> Estimate:
    picked = systematic(ensemble.weights, _SOME)
    values = observable.values(ensemble.x[picked])
    equal = LogWeights(torch.zeros(_SOME, dtype=torch.float64), {})
    if observable.periodic:
        alone = circular_mean(equal, values, confidence)
    else:
        alone = weighted_mean(equal, values, confidence)
    wider = math.sqrt(1 + _SOME / ensemble.weights.ess())
    low, high = (alone.value + wider * (end - alone.value) for end in (alone.low, alone.high))
    return Estimate(alone.value, low, high, wider * alone.standard_error, confidence)


def circular_mean(weights: LogWeights, angles: Tensor, confidence: float = 0.95) -> Estimate:
    r"""Return the direction μ of the mean unit vector, with its interval by the delta method.

    $$R e^{i\mu} = \sum_i \bar w_i e^{i\theta_i}, \qquad \psi_i = \bar w_i \sin(\theta_i - \mu)/R$$

    The interval may reach beyond ±π; it is at most the whole circle, which it is when the angles have no direction.

    Args:
        weights: of n samples.
        angles: radians, ``(n,)``; at weightless samples they may be anything.
        confidence: of the interval.
    """
    carrying = weights.values.isfinite()
    share, theta = weights.normalised()[carrying], angles.detach().cpu().double()[carrying]
    if not theta.isfinite().all():
        count = int((~theta.isfinite()).sum())
        raise UserError(f"The angle is not finite at {count} of the {len(theta)} weighted samples.")
    x, y = float((share * theta.cos()).sum()), float((share * theta.sin()).sum())
    mean, length = math.atan2(y, x), math.hypot(x, y)
    error = float((share * (theta - mean).sin()).norm()) / length if length > 0 else math.inf
    half = min(normal_quantile(confidence) * error, math.pi)
    return Estimate(mean, mean - half, mean + half, error, confidence)
