"""Profiles, histograms and curves: what is drawn is what was given."""

import math
import re

import pytest

from boltzkit.report.molecule import Curve, Histogram, Profile
from boltzkit.report.molecule.plots import draw_curve, draw_histogram, draw_profile

NAN = math.nan


def drawn_paths(drawing, style):
    return re.findall(rf'<path d="([^"]*)" class="{style}"', drawing)


def points(d):
    return [tuple(map(float, pair.split())) for pair in re.split("[MLZ]", d) if pair.strip()]


def of_angles(periodic=True, raw=None, values=(0.0, 1.0, 2.0, 1.0)):
    x = (-135.0, -45.0, 45.0, 135.0)
    low, high = (tuple(v + shift for v in values) for shift in (-0.5, 0.5))
    return Profile("φ", "degrees", x, values, low, high, periodic, raw)


def test_a_periodic_profile_is_closed_halfway_between_its_ends():
    (line,) = drawn_paths(draw_profile(of_angles()), "line s0")
    assert len(points(line)) == 6
    first, last = points(line)[0], points(line)[-1]
    assert (first[0], last[0]) == (0.0, 306.0)
    assert first[1] == last[1]
    (line,) = drawn_paths(draw_profile(of_angles(periodic=False)), "line s0")
    assert len(points(line)) == 4


def test_the_line_before_reweighting_is_drawn_if_there_is_one():
    assert drawn_paths(draw_profile(of_angles()), "line raw") == []
    assert len(drawn_paths(draw_profile(of_angles(raw=(1.0, 1.0, 1.0, 1.0))), "line raw")) == 1


def test_a_profile_says_its_ends_in_words():
    assert "lowest at -135 degrees, highest at 45 degrees, 2.0 k_BT above it" in draw_profile(of_angles())
    assert "no samples" in draw_profile(of_angles(values=(NAN,) * 4))


def test_a_weight_of_next_to_nothing_does_not_decide_the_axis():
    drawing = draw_profile(of_angles(values=(0.0, 1.0, 400.0, 3.0)))
    assert max(float(text) for text in re.findall(r"<text[^>]*>(\d+)</text>", drawing) if text != "180") <= 90
    assert ">400<" not in drawing
    assert ">15<" in drawing


def test_data_are_grey_and_filled_wherever_they_stand():
    histogram = Histogram("u", "k_BT", (0.0, 1.0, 2.0), {"flow": (0.4, 0.6), "Data": (0.5, NAN)})
    drawing = draw_histogram(histogram)
    assert len(drawn_paths(drawing, "area data")) == len(drawn_paths(drawing, "line data")) == 1
    assert len(drawn_paths(drawing, "line s0")) == 1
    assert "0.5 k_BT: flow 0.4, Data 0.5" in drawing


def test_without_data_the_first_density_is_filled():
    drawing = draw_histogram(Histogram("u", "", (0.0, 1.0), {"a": (1.0,), "b": (1.0,)}))
    assert drawn_paths(drawing, 'area [^"]*') == drawn_paths(drawing, "area s0") != []


@pytest.mark.parametrize("densities", [{}, {"a": (0.0,)}])
def test_a_histogram_of_nothing_is_an_empty_plot(densities):
    assert "<svg" in draw_histogram(Histogram("u", "", (0.0, 1.0), densities))


def test_large_spans_get_a_logarithmic_axis():
    wide = Curve("loss", "step", "loss", {"a": ((0.0, 1e4), (1.0, 1.0))})
    assert "10⁴" in draw_curve(wide)
    narrow = Curve("loss", "step", "loss", {"a": ((0.0, 1e4), (1.0, 0.0))})
    assert "10⁴" not in draw_curve(narrow)


def test_long_curves_are_thinned_but_keep_their_spikes():
    values = [(float(x), 1.0) for x in range(5000)]
    values[1234] = (1234.0, 9.0)
    drawing = draw_curve(Curve("c", "x", "y", {"a": tuple(values)}))
    (line,) = drawn_paths(drawing, "line s0")
    assert len(points(line)) < 500
    assert min(y for _, y in points(line)) < 0.1 * 176
    assert len(drawing) < 60_000


@pytest.mark.parametrize("series", [{}, {"a": ()}, {"a": ((0.0, NAN),)}, {"a": ((1.0, 2.0),)}])
def test_a_curve_of_little_is_still_a_plot(series):
    assert "<svg" in draw_curve(Curve("c", "x", "y", series))
