"""Weighted samples: averages with error bars, and whether to trust them."""

from boltzkit.ensemble.ensemble import Ensemble
from boltzkit.ensemble.estimates import log_population_ratio, population, weighted_mean
from boltzkit.ensemble.metrics import (
    NegativeLogLikelihood,
    Reweighting,
    negative_log_likelihood,
    reweighting,
)
from boltzkit.ensemble.sampling import draw, draw_effective
from boltzkit.ensemble.torus import Divergence, ramachandran_divergence
from boltzkit.ensemble.verdict import Level, Verdict, verdict

__all__ = [
    "Divergence",
    "Ensemble",
    "Level",
    "NegativeLogLikelihood",
    "Reweighting",
    "Verdict",
    "draw",
    "draw_effective",
    "log_population_ratio",
    "negative_log_likelihood",
    "population",
    "ramachandran_divergence",
    "reweighting",
    "verdict",
    "weighted_mean",
]
