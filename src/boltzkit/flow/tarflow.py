"""TarFlow (Zhai et al., 2025) on Cartesian coordinates: each atom is a token, placed by those before it."""

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal, cast

import torch
from pydantic import Field, PositiveFloat, ValidationInfo, field_validator
from torch import Tensor, nn

from boltzkit.config import Config
from boltzkit.coordinates.augmentation import Augmentation
from boltzkit.coordinates.bijection import Bijection
from boltzkit.coordinates.centre import Correction
from boltzkit.errors import UserError
from boltzkit.flow.augmented_flow import AugmentedFlow
from boltzkit.flow.base import StandardNormal
from boltzkit.flow.causal_block import CausalBlock
from boltzkit.flow.causal_transformer import CausalTransformer
from boltzkit.randomness import generator

__all__ = ["TARFLOW_PRESETS", "TarFlow", "TarFlowConfig", "build_tarflow"]


class TarFlowConfig(Config):
    """Blocks of causal transformers over atoms; the defaults are the paper's."""

    kind: Literal["tarflow"] = "tarflow"
    """The architecture."""
    blocks: int = Field(4, ge=1)
    """Autoregressive blocks; every other one goes through the atoms backwards."""
    layers: int = Field(4, ge=1)
    """Attention layers of each block."""
    channels: int = Field(256, ge=1)
    """Width of the transformers."""
    heads: int = Field(4, ge=1)
    """Attention heads of each layer, which share the channels; no parameter depends on them."""
    expansion: int = Field(4, ge=1)
    """How much wider than the channels the hidden layer after each attention is."""
    correction: Correction = "gaussian"
    """Law of the centre that weights take out: `gaussian` (exact), or `chi` to compare with earlier publications."""
    scale: PositiveFloat | None = None
    """nm: standard deviation of centred data, by which they are divided; over √atoms, the noise of their centre. That
    of the molecule's reference structure by default."""

    @field_validator("heads")
    @classmethod
    def _share_channels(cls, value: int, info: ValidationInfo) -> int:
        channels = info.data.get("channels", value)
        if channels % value:
            raise ValueError(f"{channels} channels cannot be shared evenly by {value} heads")
        return value


TARFLOW_PRESETS: Mapping[str, TarFlowConfig] = MappingProxyType(
    {
        "paper": TarFlowConfig(),
        "laptop": TarFlowConfig(layers=2, channels=128),
        "small": TarFlowConfig(layers=2, channels=64),
        "tiny": TarFlowConfig(blocks=2, layers=1, channels=16, heads=2),
    }
)
"""Named sizes: `paper` (12.7 million parameters for alanine dipeptide), `laptop` (1.6), `small` (0.4), `tiny`."""


class TarFlow(Bijection):
    """Blocks of autoregressive maps from a Gaussian latent to positions, and a fixed scale.

    Density takes one pass over all atoms; samples are placed atom by atom, with cached keys and values (see
    `CausalBlock`). It starts as the mere scale. It knows nothing of translations and rotations: data are augmented by
    them (`boltzkit.coordinates.Augmentation`).

    Args:
        n_atoms: number of atoms, at least two.
        config: the architecture.
        scale: nm: the standard deviation of the data, by which they are divided; kept in checkpoints.
    """

    scale: Tensor

    def __init__(self, n_atoms: int, config: TarFlowConfig, scale: float) -> None:
        super().__init__()
        if n_atoms < 2:
            raise UserError(f"TarFlow needs at least two atoms, one to place the other, not {n_atoms}.")
        if not (math.isfinite(scale) and scale > 0):
            raise UserError(f"TarFlow divides data by a finite scale above zero, in nm, not by {scale}.")
        self.n_atoms = n_atoms
        self.blocks = nn.ModuleList(
            CausalBlock(
                CausalTransformer(
                    n_atoms,
                    3,
                    6,
                    layers=config.layers,
                    channels=config.channels,
                    heads=config.heads,
                    expansion=config.expansion,
                ),
                # The block nearest to the data takes atoms in their order.
                backwards=(config.blocks - block) % 2 == 0,
            )
            for block in range(config.blocks)
        )
        self.register_buffer("scale", torch.tensor(scale))

    def transform(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """Map the latent to positions, ``(..., 3 · atoms) -> (..., atoms, 3)`` nm, atom by atom."""
        if z.shape[-1] != 3 * self.n_atoms:
            raise UserError(
                f"TarFlow of {self.n_atoms} atoms has a latent of {3 * self.n_atoms} dims, not {z.shape[-1]}."
            )
        x, total = z.reshape(-1, self.n_atoms, 3), self._log_volume()
        for block in self.blocks:
            x, log_det = cast(CausalBlock, block).transform(x)
            total = total + log_det
        return (x * self.scale).reshape(*z.shape[:-1], self.n_atoms, 3), total.reshape(z.shape[:-1])

    def inverse(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Map positions to the latent, ``(..., atoms, 3)`` nm to ``(..., 3 · atoms)``, in one pass per block."""
        if x.shape[-2:] != (self.n_atoms, 3):
            raise UserError(
                f"TarFlow of {self.n_atoms} atoms takes positions ({self.n_atoms}, 3), not {tuple(x.shape[-2:])}."
            )
        z, total = x.reshape(-1, self.n_atoms, 3) / self.scale, -self._log_volume()
        for block in reversed(self.blocks):
            z, log_det = cast(CausalBlock, block).inverse(z)
            total = total + log_det
        return z.reshape(*x.shape[:-2], 3 * self.n_atoms), total.reshape(x.shape[:-2])

    def start(self, seed: int) -> None:
        """Draw the starting parameters, each block's from a generator of its own."""
        for number, block in enumerate(self.blocks):
            cast(CausalBlock, block).network.start(generator(seed, f"start of layer {number}"))

    def _log_volume(self) -> Tensor:
        return 3 * self.n_atoms * self.scale.log()


def build_tarflow(config: TarFlowConfig, n_atoms: int, seed: int, scale: float) -> AugmentedFlow:
    """Build the flow on positions ``(batch, atoms, 3)`` nm, with parameters drawn from the seed.

    Args:
        config: the architecture.
        n_atoms: number of atoms.
        seed: of the starting parameters.
        scale: nm: the standard deviation of the data (`boltzkit.coordinates.centred_scale`).
    """
    bijection = TarFlow(n_atoms, config, scale)
    bijection.start(seed)
    augmentation = Augmentation.for_scale(n_atoms, scale)
    flow = AugmentedFlow(StandardNormal(3 * n_atoms), bijection, augmentation, config.correction)
    return flow.to(torch.get_default_dtype())
