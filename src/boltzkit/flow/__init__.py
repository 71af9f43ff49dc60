"""Normalizing flows: bijections, base distributions, architectures."""

from boltzkit.coordinates.bijection import Bijection
from boltzkit.flow.base import Base, StandardNormal, StudentT, TruncatedNormal, Uniform
from boltzkit.flow.chain import Chain
from boltzkit.flow.conditioner import Conditioner
from boltzkit.flow.coupling import AffineCoupling
from boltzkit.flow.flow import Flow, Samples
from boltzkit.flow.realnvp import RealNVPConfig, build_realnvp

__all__ = [
    "AffineCoupling",
    "Base",
    "Bijection",
    "Chain",
    "Conditioner",
    "Flow",
    "RealNVPConfig",
    "Samples",
    "StandardNormal",
    "StudentT",
    "TruncatedNormal",
    "Uniform",
    "build_realnvp",
]
