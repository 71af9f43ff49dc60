"""Ticks are few, round and inside their axis."""

import math
from itertools import pairwise

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from boltzkit.report.molecule.ticks import linear_ticks, log_ticks, number


@given(st.floats(-1e6, 1e6), st.floats(1e-4, 1e6))
def test_ticks_are_few_even_and_told_apart(low, width):
    assume(width > 1e-6 * abs(low))
    ticks = linear_ticks(low, low + width)
    slack = 1e-5 * width
    assert 1 <= len(ticks) <= 8
    assert all(low - slack <= tick.at <= low + width + slack for tick in ticks)
    gaps = [b.at - a.at for a, b in pairwise(ticks)]
    assert all(math.isclose(gap, gaps[0], rel_tol=1e-4) for gap in gaps)
    if width > 1e-3 * abs(low):
        assert len({tick.text for tick in ticks}) == len(ticks)


@pytest.mark.parametrize(
    ("low", "high", "texts"),
    [
        (-math.pi, math.pi, ["−π", "−π/2", "0", "π/2", "π"]),
        (0.0, 360.0, ["0", "90", "180", "270", "360"]),
        (-0.03, 0.02, ["−0.03", "−0.02", "−0.01", "0.00", "0.01", "0.02"]),
        (0.0, 9000.0, ["0", "2000", "4000", "6000", "8000"]),
        (0.0, 25_000.0, ["0", "5k", "10k", "15k", "20k", "25k"]),
        (0.0, 2.5e6, ["0", "0.5M", "1.0M", "1.5M", "2.0M", "2.5M"]),
    ],
)
def test_texts(low, high, texts):
    assert [tick.text for tick in linear_ticks(low, high)] == texts


def test_powers_of_ten_are_thinned_out():
    assert [tick.text for tick in log_ticks(1e-12, 1.0)] == ["10⁻¹²", "10⁻⁹", "10⁻⁶", "10⁻³", "10⁰"]


def test_numbers_that_do_not_exist():
    assert [number(x, 1) for x in (math.nan, math.inf, -math.inf, -0.04)] == ["–", "∞", "−∞", "0.0"]
