"""Simulations that make energy-labelled data: a batched sampler on the torch force field."""

from boltzkit.simulate.autocorrelation import autocorrelation_time, effective_samples
from boltzkit.simulate.ground_truth import BatchedSimulation, simulate_batched
from boltzkit.simulate.internal_space import InternalSpace
from boltzkit.simulate.quality import Observable, Quality, assess
from boltzkit.simulate.space import CartesianSpace, PlainSpace, Space
from boltzkit.simulate.tempering import Sweep, Tempering, TemperingConfig

__all__ = [
    "BatchedSimulation",
    "CartesianSpace",
    "InternalSpace",
    "Observable",
    "PlainSpace",
    "Quality",
    "Space",
    "Sweep",
    "Tempering",
    "TemperingConfig",
    "assess",
    "autocorrelation_time",
    "effective_samples",
    "simulate_batched",
]
