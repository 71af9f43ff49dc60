"""Simulations that make energy-labelled data: a batched sampler on the torch force field."""

from boltzkit.simulate.autocorrelation import autocorrelation_time, effective_samples
from boltzkit.simulate.internal_space import InternalSpace
from boltzkit.simulate.space import CartesianSpace, PlainSpace, Space
from boltzkit.simulate.tempering import Sweep, Tempering, TemperingConfig

__all__ = [
    "CartesianSpace",
    "InternalSpace",
    "PlainSpace",
    "Space",
    "Sweep",
    "Tempering",
    "TemperingConfig",
    "autocorrelation_time",
    "effective_samples",
]
