"""Normalizing flows: bijections, base distributions, architectures."""

from boltzkit.flow.augmented_flow import AugmentedFlow
from boltzkit.flow.base import Base, Product, StandardNormal, StudentT, TruncatedNormal, Uniform
from boltzkit.flow.chain import Chain
from boltzkit.flow.conditioner import Conditioner
from boltzkit.flow.coupling import AffineCoupling
from boltzkit.flow.flow import Flow, Samples
from boltzkit.flow.hidden import hidden_weights
from boltzkit.flow.realnvp import RealNVPConfig, build_realnvp
from boltzkit.flow.short_products import short_gradients, short_products_are_fast
from boltzkit.flow.spline_coupling import SplineCoupling
from boltzkit.flow.spline_flow import (
    SPLINE_PRESETS,
    SplineFlowConfig,
    build_euclidean_spline_flow,
    build_spline_bijection,
    build_spline_flow,
    unit_box_base,
)
from boltzkit.flow.tarflow import TARFLOW_PRESETS, TarFlow, TarFlowConfig, build_tarflow
from boltzkit.flow.torch_compile import torch_compiled

__all__ = [
    "SPLINE_PRESETS",
    "TARFLOW_PRESETS",
    "AffineCoupling",
    "AugmentedFlow",
    "Base",
    "Chain",
    "Conditioner",
    "Flow",
    "Product",
    "RealNVPConfig",
    "Samples",
    "SplineCoupling",
    "SplineFlowConfig",
    "StandardNormal",
    "StudentT",
    "TarFlow",
    "TarFlowConfig",
    "TruncatedNormal",
    "Uniform",
    "build_euclidean_spline_flow",
    "build_realnvp",
    "build_spline_bijection",
    "build_spline_flow",
    "build_tarflow",
    "hidden_weights",
    "short_gradients",
    "short_products_are_fast",
    "torch_compiled",
    "unit_box_base",
]
