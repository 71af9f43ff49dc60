"""The paper's flow on internal coordinates, pairs of spline couplings on the unit box, and the same on ℝⁿ."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor

from boltzkit.config import Config
from boltzkit.coordinates.bijection import Bijection
from boltzkit.errors import UserError
from boltzkit.flow.base import Base, Product, StandardNormal, TruncatedNormal, Uniform
from boltzkit.flow.chain import Chain
from boltzkit.flow.flow import Flow
from boltzkit.flow.spline_coupling import SplineCoupling
from boltzkit.flow.stretch import Stretch
from boltzkit.randomness import generator

__all__ = [
    "SPLINE_PRESETS",
    "SplineFlowConfig",
    "build_euclidean_spline_flow",
    "build_spline_bijection",
    "build_spline_flow",
    "unit_box_base",
]

_KINDS = ("bond", "angle", "torsion")


class SplineFlowConfig(Config):
    """Pairs of spline couplings on the unit box of internal coordinates; the defaults are the paper's."""

    kind: Literal["spline"] = "spline"
    """The architecture."""
    pairs: int = Field(8, ge=1)
    """Pairs of coupling layers; the second of a pair moves what the first one is given."""
    hidden: tuple[Annotated[int, Field(ge=1)], ...] = Field((256, 256, 256, 256, 256), min_length=1)
    """Widths of the conditioner's hidden layers; no ReLU after the first, unless it is the only one."""
    bins: int = Field(8, ge=1, le=256)
    """Bins of each spline."""
    architecture_seed: int = 0
    """Seed of the masks and of the seams (the periodic shifts), which are fixed parts of the architecture."""
    reach: float = Field(5.0, gt=0, allow_inf_nan=False)
    """On ℝⁿ the splines bend what lies within ± this, and beyond it the flow is the identity; molecules have windows
    of their own (target.coordinates)."""


SPLINE_PRESETS: Mapping[str, SplineFlowConfig] = MappingProxyType(
    {
        "paper": SplineFlowConfig(),
        "laptop": SplineFlowConfig(hidden=(128, 128, 128)),
        "small": SplineFlowConfig(pairs=4, hidden=(64, 64)),
        "tiny": SplineFlowConfig(pairs=2, hidden=(16, 16), bins=4),
    }
)
"""Named sizes: `paper` (7.4 million parameters for alanine dipeptide), `laptop` (2.1), `small` (0.4), `tiny`."""


def build_spline_flow(
    config: SplineFlowConfig,
    kinds: Sequence[str],
    seed: int,
    *,
    circular: Sequence[bool] | Tensor | None = None,
    compiled: bool = True,
) -> Flow:
    """Build the flow on the unit box ``(batch, dim)``, with parameters drawn from the seed.

    Args:
        config: the architecture.
        kinds: ``bond``, ``angle`` or ``torsion`` for each dim.
        seed: of the starting parameters.
        circular: whether 0 and 1 are the same point, for each dim; None for all torsions, as in the paper, and no
            other. Torsions that are held to half the circle may be left out of it.
        compiled: use the splines' C++ kernel, compiled once per machine in a few seconds; else plain torch.
    """
    bijection = build_spline_bijection(config, kinds, seed, circular=circular, compiled=compiled)
    return Flow(unit_box_base(kinds), bijection).to(torch.get_default_dtype())


def build_euclidean_spline_flow(config: SplineFlowConfig, dim: int, seed: int) -> Flow:
    """Build the flow on ℝⁿ, from a standard normal: the unit box is stretched to ± `reach` in every dim."""
    if dim < 2:
        raise UserError(f"A spline flow needs two dims, one to condition the other, not {dim}.")
    couplings = build_spline_bijection(config, ["bond"] * dim, seed).links
    to_box, from_box = Stretch(0.5 / config.reach, 0.5), Stretch(2 * config.reach, -config.reach)
    chain = Chain([to_box, *couplings, from_box])
    return Flow(StandardNormal(dim), chain).to(torch.get_default_dtype())


def build_spline_bijection(
    config: SplineFlowConfig,
    kinds: Sequence[str],
    seed: int,
    *,
    circular: Sequence[bool] | Tensor | None = None,
    compiled: bool = True,
) -> Chain:
    """Build the learned map alone, for a chain that goes on to Cartesian coordinates."""
    _check(kinds)
    turns = _circular(kinds, circular)
    links: list[Bijection] = []
    for pair in range(config.pairs):
        first = _first_changed(kinds, config.architecture_seed, pair)
        second = [dim for dim in range(len(kinds)) if dim not in set(first)]
        for given, changed in ((second, first), (first, second)):
            seams = _seams(turns, config.architecture_seed, len(links))
            coupling = SplineCoupling(given, changed, seams, config.hidden, config.bins, compiled)
            coupling.start(generator(seed, f"start of layer {len(links)}"))
            links.append(coupling)
    return Chain(links)


def unit_box_base(kinds: Sequence[str]) -> Base:
    """Return the paper's latent: uniform torsions, bonds and angles from a normal (0.5, 0.1) cut to [0, 1]."""
    torsions = [dim for dim, kind in enumerate(kinds) if kind == "torsion"]
    others = [dim for dim, kind in enumerate(kinds) if kind != "torsion"]
    return Product([(Uniform(len(torsions)), torsions), (TruncatedNormal(len(others)), others)])


def _check(kinds: Sequence[str]) -> None:
    unknown = sorted(set(kinds) - set(_KINDS))
    if unknown:
        raise UserError(f"A dim is a bond, an angle or a torsion, not '{unknown[0]}'.")
    if all(kinds.count(kind) < 2 for kind in _KINDS):
        raise UserError(
            f"A spline flow needs two dims of one kind, one to condition the other, not {tuple(kinds)}."
        )


def _circular(kinds: Sequence[str], circular: Sequence[bool] | Tensor | None) -> list[bool]:
    if circular is None:
        return [kind == "torsion" for kind in kinds]
    turns = [bool(value) for value in circular]
    if len(turns) != len(kinds):
        raise UserError(f"The mask of circular dims has {len(turns)} values for {len(kinds)} dims.")
    return turns


def _first_changed(kinds: Sequence[str], seed: int, pair: int) -> list[int]:
    """Return the dims that the first coupling of a pair moves: half of each kind, rounded down, at random."""
    chosen: list[int] = []
    for kind in _KINDS:
        dims = [dim for dim, own in enumerate(kinds) if own == kind]
        order = torch.randperm(len(dims), generator=generator(seed, f"mask of {kind}s", pair))
        chosen += [dims[i] for i in order[: len(dims) // 2].tolist()]
    return sorted(chosen)


def _seams(turns: list[bool], seed: int, layer: int) -> list[float | None]:
    places = torch.rand(len(turns), generator=generator(seed, "seams", layer), dtype=torch.float64).tolist()
    return [place if turn else None for place, turn in zip(places, turns, strict=True)]
