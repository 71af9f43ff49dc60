"""A molecule's energy on one side of its mirrors: what is the other way round is weightless, and counted."""

from typing import final

import torch
from torch import Tensor

from boltzkit.coordinates import Handedness
from boltzkit.energy import Target

__all__ = ["OneHanded"]


@final
class OneHanded(Target):
    """The energy of a molecule, +inf for mirror images of its reference structure.

    Flows on Cartesian coordinates place mirror images, and hydrogens of a methyl in exchanged places, which flows on
    internal coordinates cannot. With +inf such samples stay in the number drawn and weigh nothing, so that log Z is
    that of one chirality and permutation sector, as everywhere else.

    Args:
        target: the energy; not asked about mirror images any less, so that evaluations are counted as drawn.
        handedness: centres to look at.
    """

    def __init__(self, target: Target, handedness: Handedness) -> None:
        self.target, self.handedness = target, handedness
        self.name, self.event_shape = target.name, target.event_shape

    def _energy(self, x: Tensor) -> Tensor:
        energy = self.target(x)
        return torch.where(self.handedness.wrong(x.detach()).to(energy.device), torch.inf, energy)
