"""Coordinates: internal and Cartesian ones with exact log-determinants, and the contract of every map."""

from boltzkit.coordinates.augmentation import (
    Augmentation,
    Augmented,
    centred_scale,
    random_rotations,
)
from boltzkit.coordinates.bijection import Bijection
from boltzkit.coordinates.config import CoordinatesConfig
from boltzkit.coordinates.handedness import Handedness
from boltzkit.coordinates.internal import PAPER_NLL_OFFSET, InternalCoordinates, rigid_body_log_volume
from boltzkit.coordinates.support import Offender, SupportReport
from boltzkit.coordinates.zmatrix import ZMatrix, build_zmatrix

__all__ = [
    "PAPER_NLL_OFFSET",
    "Augmentation",
    "Augmented",
    "Bijection",
    "CoordinatesConfig",
    "Handedness",
    "InternalCoordinates",
    "Offender",
    "SupportReport",
    "ZMatrix",
    "build_zmatrix",
    "centred_scale",
    "random_rotations",
    "rigid_body_log_volume",
]
