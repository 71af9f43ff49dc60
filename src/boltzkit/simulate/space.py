"""What a sampler moves in: coordinates with their energy, their measure, and turns about bonds."""

from abc import ABC, abstractmethod
from typing import NamedTuple, Self

import torch
from torch import Tensor

from boltzkit.energy import Target
from boltzkit.molecule import Molecule
from boltzkit.simulate.turns import Turn, find_turns, turned

__all__ = ["CartesianSpace", "Evaluated", "PlainSpace", "Space"]


class Evaluated(NamedTuple):
    """Configurations with all that a move needs; every tensor has the same leading axes."""

    y: Tensor
    """Coordinates, ``(..., *event)``."""
    energy: Tensor
    """Reduced energy at the target's temperature, ``(...)``."""
    energy_slope: Tensor
    """Its gradient in y."""
    log_measure: Tensor
    """log|∂x/∂y|: the density in y is exp(−βu + log_measure)."""
    measure_slope: Tensor
    """Its gradient in y."""

    def where(self, accepted: Tensor, other: Self) -> "Evaluated":
        """Return these configurations where accepted, the others elsewhere."""
        return Evaluated(
            *(
                torch.where(accepted.reshape(accepted.shape + (1,) * (mine.ndim - accepted.ndim)), mine, its)
                for mine, its in zip(self, other, strict=True)
            )
        )


class Space(ABC):
    """Coordinates y in which configurations x of a target are moved.

    Attributes:
        target: the counted energy of x at the reference temperature.
        event_shape: shape of one configuration in y.
        scale: how far one unit of a move goes in each coordinate, ``event_shape``.
        turns: number of bonds about which parts of a configuration can be turned.
    """

    target: Target
    event_shape: torch.Size
    scale: Tensor
    turns: int = 0

    @abstractmethod
    def evaluate(self, y: Tensor) -> Evaluated:
        """Evaluate a batch ``(..., *event)``: one energy with its gradient each."""

    @abstractmethod
    def positions(self, y: Tensor) -> Tensor:
        """Return configurations x as the target takes them."""

    @abstractmethod
    def coordinates(self, x: Tensor) -> Tensor:
        """Return y of configurations x."""

    def turn(self, y: Tensor, index: int, angle: Tensor) -> Tensor:
        """Turn about one bond by an angle per configuration; keeps the measure and is undone by −angle."""
        raise NotImplementedError(f"{type(self).__name__} has no bonds to turn about.")


class PlainSpace(Space):
    """The target's own coordinates, each moved alike."""

    def __init__(self, target: Target) -> None:
        self.target, self.event_shape = target, target.event_shape
        self.scale = torch.ones(target.event_shape)

    def evaluate(self, y: Tensor) -> Evaluated:
        """Evaluate the target; the measure is flat."""
        energy, slope = self.target.energy_and_gradient(y)
        return Evaluated(y, energy, slope, torch.zeros_like(energy), torch.zeros_like(slope))

    def positions(self, y: Tensor) -> Tensor:
        """Return y."""
        return y

    def coordinates(self, x: Tensor) -> Tensor:
        """Return x."""
        return x


class CartesianSpace(PlainSpace):
    """Positions in nm. Atoms move by their mass, and parts of the molecule turn about its rotatable bonds.

    The distribution of positions does not depend on masses, so hydrogens are taken as four times as heavy as they
    are: bonds to them then vibrate no faster than others, and steps can be longer.
    """

    def __init__(self, molecule: Molecule, target: Target) -> None:
        super().__init__(target)
        masses = [molecule.system.getParticleMass(i)._value for i in range(molecule.n_atoms)]
        heavy = torch.tensor(masses).clamp(min=_LIGHTEST)
        self.scale = heavy.rsqrt().unsqueeze(-1).expand(self.event_shape)
        self._turns: list[Turn] = find_turns(molecule)
        self.turns = len(self._turns)

    def turn(self, y: Tensor, index: int, angle: Tensor) -> Tensor:
        """Turn the smaller side of a rotatable bond about it."""
        return turned(y, self._turns[index], angle)


_LIGHTEST = 4.0
"""Dalton."""
