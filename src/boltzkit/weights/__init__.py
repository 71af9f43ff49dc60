"""Importance weights: normalise, effective sample size, clip, Pareto-smooth, resample."""

from boltzkit.weights.ess import ForwardEss, ess_interval, forward_ess
from boltzkit.weights.estimate import Estimate, normal_quantile
from boltzkit.weights.log_weights import LogWeights
from boltzkit.weights.pareto import log_z_error, pareto_k, pareto_k_limit, pareto_smoothed

__all__ = [
    "Estimate",
    "ForwardEss",
    "LogWeights",
    "ess_interval",
    "forward_ess",
    "log_z_error",
    "normal_quantile",
    "pareto_k",
    "pareto_k_limit",
    "pareto_smoothed",
]
