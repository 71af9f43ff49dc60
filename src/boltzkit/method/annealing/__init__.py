"""Learning without data: intermediate targets between the flow and the target, each from a buffer of samples."""

from boltzkit.method.annealing.config import AnnealingConfig
from boltzkit.method.annealing.lessons import AnnealedBatches
from boltzkit.method.annealing.path import Waypoint, choose, trust_region

__all__ = ["AnnealedBatches", "AnnealingConfig", "Waypoint", "choose", "trust_region"]
