"""Settings of internal coordinates."""

from pydantic import Field

from boltzkit.config import Config

__all__ = ["CoordinatesConfig"]


class CoordinatesConfig(Config):
    """How internal coordinates fill the unit box; the defaults are the paper's."""

    bond_width: float = Field(0.07, gt=0)
    """Width in nm of the window of a bond length, centred on its value in the reference structure."""
    angle_width: float = Field(0.5730, gt=0)
    """Width of the window of a bond angle in units of π (0.5730 is 1.8 rad), centred likewise."""
    chirality: bool = True
    """Hold the handedness of stereocentres, each by one torsion that covers half the circle."""
    permutations: bool = True
    """Hold the order of alike neighbours of a tetrahedral centre (methyls, methylenes), by half circles too."""
