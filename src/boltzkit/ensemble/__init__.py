"""Weighted samples: averages with error bars, the numbers that judge a flow, and whether to trust them."""

from boltzkit.ensemble.blocks import even_blocks, trajectory_blocks
from boltzkit.ensemble.divergence import Divergence, histogram_divergence, ramachandran_divergence
from boltzkit.ensemble.energy_distance import Distance, energy_distance
from boltzkit.ensemble.ensemble import Ensemble
from boltzkit.ensemble.entropy import likelihood_gap, target_entropy
from boltzkit.ensemble.estimates import log_population_ratio, population, weighted_mean
from boltzkit.ensemble.forward import ForwardReweighting, forward_reweighting
from boltzkit.ensemble.histogram import TORUS, Grid, Histogram
from boltzkit.ensemble.metrics import (
    NegativeLogLikelihood,
    Reweighting,
    negative_log_likelihood,
    reweighting,
)
from boltzkit.ensemble.observed import Observe, Observed, observe_model
from boltzkit.ensemble.other_hand import EXCHANGED, MIRROR, OtherHand
from boltzkit.ensemble.peptide import PeptideObservables
from boltzkit.ensemble.sampling import draw, draw_effective, draw_into
from boltzkit.ensemble.spool import forget_chunks
from boltzkit.ensemble.subject import Subject
from boltzkit.ensemble.tica import Tica, fit_tica
from boltzkit.ensemble.transport import euclidean_distance, torus_distance
from boltzkit.ensemble.verdict import Finding, Level, Verdict, verdict

__all__ = [
    "EXCHANGED",
    "MIRROR",
    "TORUS",
    "Distance",
    "Divergence",
    "Ensemble",
    "Finding",
    "ForwardReweighting",
    "Grid",
    "Histogram",
    "Level",
    "NegativeLogLikelihood",
    "Observe",
    "Observed",
    "OtherHand",
    "PeptideObservables",
    "Reweighting",
    "Subject",
    "Tica",
    "Verdict",
    "draw",
    "draw_effective",
    "draw_into",
    "energy_distance",
    "euclidean_distance",
    "even_blocks",
    "fit_tica",
    "forget_chunks",
    "forward_reweighting",
    "histogram_divergence",
    "likelihood_gap",
    "log_population_ratio",
    "negative_log_likelihood",
    "observe_model",
    "population",
    "ramachandran_divergence",
    "reweighting",
    "target_entropy",
    "torus_distance",
    "trajectory_blocks",
    "verdict",
    "weighted_mean",
]
