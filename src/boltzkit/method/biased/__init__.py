"""Learning from biased data: a proposal, its importance samples, and a dispersion that takes any labelled data."""

from boltzkit.method.biased.config import ImportanceConfig, ReferenceConfig
from boltzkit.method.biased.importance import held_out_part, importance_set, resampled_data
from boltzkit.method.biased.overlap import BasinOverlap, Overlap, overlap_of

__all__ = [
    "BasinOverlap",
    "ImportanceConfig",
    "Overlap",
    "ReferenceConfig",
    "held_out_part",
    "importance_set",
    "overlap_of",
    "resampled_data",
]
