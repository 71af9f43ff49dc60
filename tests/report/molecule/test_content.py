"""Content that does not fit together is refused where it is made."""

import math

import pytest

from boltzkit.report.molecule import Histogram, Profile, Structure, Surface

NAN = math.nan


def test_lengths_must_agree():
    with pytest.raises(ValueError, match="'φ' needs two bins"):
        Profile("φ", "rad", (0.0, 1.0), (0.0, 1.0), (0.0,), (1.0, 2.0), periodic=False)
    with pytest.raises(ValueError, match="'φ' needs two bins"):
        Profile("φ", "rad", (0.0, 1.0), (0.0, 1.0), (0.0, 0.0), (1.0, 2.0), periodic=False, raw=(1.0,))
    with pytest.raises(ValueError, match="2 × 1 cells"):
        Surface("s", "x", "y", (0.0, 1.0, 2.0), (0.0, 1.0), ((0.0,), (0.0, 1.0)))
    with pytest.raises(ValueError, match="one number per bin"):
        Histogram("h", "", (0.0, 1.0, 2.0), {"flow": (1.0,)})


def test_what_fits_is_taken():
    Profile("φ", "rad", (0.0, 1.0), (0.0, NAN), (0.0, NAN), (1.0, NAN), periodic=True, raw=(1.0, 1.0))
    Surface("s", "x", "y", (0.0, 1.0, 2.0), (0.0, 1.0), ((0.0,), (NAN,)))
    Histogram("h", "", (0.0, 1.0, 2.0), {})


def test_a_structure_has_atoms():
    with pytest.raises(ValueError, match="'C5' has no atoms"):
        Structure("C5", "", "REMARK nothing\n")
