"""Configurations that are the other way round: mirror images, and those whose alike atoms have changed places."""

from dataclasses import dataclass
from typing import Self

from torch import Tensor

from boltzkit.coordinates import Handedness
from boltzkit.molecule import Molecule

__all__ = ["EXCHANGED", "MIRROR", "OtherHand"]

MIRROR, EXCHANGED = "mirror image", "exchanged atoms"
"""Why a sample weighs nothing on purpose: it stands for a configuration that is counted elsewhere, or not wanted."""


@dataclass(frozen=True, eq=False)
class OtherHand:
    """Tells which configurations are the other way round than a molecule's reference structure, and in what.

    Attributes:
        stereo: stereocentres, whose other side is another molecule.
        alike: these, and centres with alike neighbours (methyls), whose other side is the same with atoms exchanged.
    """

    stereo: Handedness
    alike: Handedness

    @classmethod
    def of(cls, molecule: Molecule) -> Self:
        """Look at the centres of a molecule."""
        return cls(Handedness.of(molecule), Handedness.of(molecule, permutations=True))

    def __call__(self, x: Tensor) -> dict[str, Tensor]:
        """Return by reason which of configurations ``(n, atoms, 3)`` it befalls, ``(n,)``; each has one at most."""
        mirrored = self.stereo.wrong(x)
        return {MIRROR: mirrored, EXCHANGED: self.alike.wrong(x) & ~mirrored}
