"""RealNVP as the paper uses it on the Gaussian mixture (403,230 parameters)."""

from typing import Annotated, Literal

import torch
from pydantic import Field

from boltzkit.config import Config
from boltzkit.errors import UserError
from boltzkit.flow.base import Base, StandardNormal, StudentT
from boltzkit.flow.chain import Chain
from boltzkit.flow.conditioner import Conditioner, Statistics
from boltzkit.flow.coupling import AffineCoupling
from boltzkit.flow.flow import Flow
from boltzkit.randomness import generator

__all__ = ["RealNVPConfig", "build_realnvp"]


class RealNVPConfig(Config):
    """A chain of affine couplings on ℝⁿ."""

    kind: Literal["realnvp"] = "realnvp"
    """The architecture."""
    layers: int = Field(15, ge=1)
    """Coupling layers; successive layers swap the halves."""
    hidden: tuple[Annotated[int, Field(ge=1)], ...] = Field((160, 160), min_length=1)
    """Widths of the conditioner's hidden layers."""
    statistics: Statistics = "batch"
    """Batch normalisation while training: `batch` (usual) or `running` (q stays a density; path gradients)."""
    base: Literal["normal", "student-t"] = "normal"
    """Latent distribution; `student-t` for targets with heavy tails."""


def build_realnvp(config: RealNVPConfig, dim: int, seeds: tuple[int, ...], batched: bool) -> Flow:
    """Build the flow with parameters drawn from the seeds; `batched` makes each seed a replica."""
    if dim < 2:
        raise UserError(f"RealNVP needs at least two dims, one half to condition the other, not {dim}.")
    replicas = (len(seeds),) if batched else ()
    half = dim // 2
    halves = (list(range(half)), list(range(half, dim)))
    couplings = []
    for layer in range(config.layers):
        given, changed = halves[layer % 2], halves[1 - layer % 2]
        conditioner = Conditioner(len(given), 2 * len(changed), config.hidden, replicas, config.statistics)
        conditioner.start([generator(seed, f"start of layer {layer}") for seed in seeds])
        couplings.append(AffineCoupling(given, changed, conditioner))
    base: Base = StandardNormal(dim) if config.base == "normal" else StudentT(dim)
    return Flow(base, Chain(couplings), replicas).to(torch.get_default_dtype())
