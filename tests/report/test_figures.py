"""Figures: drawn on the axes they are given, showing the numbers they are given."""

import numpy as np
import pytest
from matplotlib.figure import Figure

from boltzkit.report import (
    DensityGrid,
    Series,
    draw_by_size,
    draw_density,
    draw_log_weight,
    draw_samples,
    png,
)
from boltzkit.report.density import grid_edges

AXIS = np.linspace(-3, 3, 31)


def gaussian(x0=0.0, y0=0.0):
    x, y = np.meshgrid(AXIS, AXIS, indexing="ij")
    return DensityGrid(AXIS, (-0.5 * ((x - x0) ** 2 + (y - y0) ** 2)).astype(np.float32))


@pytest.fixture
def figure():
    return Figure(figsize=(3, 3))


def test_a_density_is_drawn_in_its_place_under_its_title(figure):
    left, right = figure.subplots(1, 2)
    draw_density(left, gaussian(), "here")
    assert left.get_title() == "here"
    assert left.collections
    assert (right.get_title(), len(right.collections)) == ("", 0)
    assert png(figure).startswith(b"\x89PNG")


def test_the_first_index_runs_along_x(figure):
    """A narrow mode at (2, −1): the highest contour must surround that point and no other."""
    ax = figure.subplots()
    grid = gaussian(2, -1)
    draw_density(ax, DensityGrid(AXIS, 20 * grid.log_prob), "mode")
    (contours,) = ax.collections
    top = contours.get_paths()[-1]
    assert top.contains_point((2, -1))
    assert not top.contains_point((-1, 2))


def test_the_log_weight_is_masked_where_the_target_has_no_mass(figure):
    ax = figure.subplots()
    target, model = gaussian(0, 0), gaussian(0.5, 0)
    draw_log_weight(ax, target, model, "weights")
    (mesh,) = ax.collections
    shown = np.ma.masked_invalid(mesh.get_array()).reshape(31, 31)
    x, y = np.meshgrid(AXIS, AXIS)
    outside = 0.5 * (x**2 + y**2) > 7 + 1e-6
    inside = 0.5 * (x**2 + y**2) < 7 - 1e-6
    # Both kinds exist, so that the mask says something.
    assert outside.any()
    assert np.ma.getmaskarray(shown)[outside].all()
    assert not np.ma.getmaskarray(shown)[inside].any()
    # log p − log q = −x²/2 + (x − ½)²/2, rows along y, cut at the limit.
    exact = np.clip(0.5 * (x - 0.5) ** 2 - 0.5 * x**2, -1.5, 1.5)
    np.testing.assert_allclose(shown[inside], exact[inside], atol=1e-5)
    assert mesh.get_clim() == (-1.5, 1.5)
    assert ax.get_title() == "weights"


def test_a_model_without_density_is_red_and_not_missing(figure):
    """Where log q = −inf the weight is at its upper limit."""
    ax = figure.subplots()
    nothing = DensityGrid(AXIS, np.where(AXIS[:, None] > 0, -np.inf, gaussian().log_prob).astype(np.float32))
    draw_log_weight(ax, gaussian(), nothing, "hole")
    shown = np.ma.masked_invalid(ax.collections[0].get_array()).reshape(31, 31)
    assert shown[15, 20] == 1.5
    assert shown[15, 10] == 0.0


def test_samples_are_drawn_where_they_are(figure):
    ax = figure.subplots()
    x = np.array([[1.0, 2.0], [-1.0, 0.5]])
    draw_samples(ax, x, 3.0, "2 samples")
    np.testing.assert_array_equal(ax.lines[0].get_xydata(), x)
    assert ax.get_xlim() == ax.get_ylim() == (-3.0, 3.0)
    assert ax.get_title() == "2 samples"


def test_edges_surround_their_centres():
    edges = grid_edges(AXIS)
    assert len(edges) == len(AXIS) + 1
    np.testing.assert_allclose((edges[1:] + edges[:-1]) / 2, AXIS, atol=1e-12)


def test_series_show_means_and_reference_values(figure):
    ax = figure.subplots()
    series = [
        Series("a", [500, 1000], [80.0, 90.0], [1.0, 2.0], {500: 77.0, 9000: 99.0}),
        Series("b", [500, 1000], [95.0, 97.0], [0.0, 0.0], {}),
    ]
    draw_by_size(ax, series, "ESS / %")
    assert (ax.get_xscale(), ax.get_xlabel(), ax.get_ylabel()) == ("log", "training samples", "ESS / %")
    labels = [text.get_text() for text in ax.get_legend().get_texts()]
    assert sorted(labels) == ["a", "b", "paper"]
    drawn = [line.get_ydata().tolist() for line in ax.lines]
    assert [80.0, 90.0] in drawn
    assert [95.0, 97.0] in drawn
    diamonds = [line.get_ydata().tolist() for line in ax.lines if line.get_marker() == "D"]
    assert diamonds == [[77.0, 99.0], []]  # also at a size that was not run here
    # Error bars of different series stand apart, each near its size.
    x = [line.get_xdata() for line in ax.lines if line.get_marker() == "o"]
    assert x[0][0] < 500 < x[1][0]
    assert png(figure).startswith(b"\x89PNG")
