"""The picture of a surface: each cell where it belongs, in colours whose steps look alike."""

import base64
import io
import math
import re

import matplotlib.image
import numpy as np
import pytest

from boltzkit.report.molecule import Surface
from boltzkit.report.molecule.colour import LEVELS, palette
from boltzkit.report.molecule.heat_map import draw_surface
from boltzkit.report.molecule.png import indexed_png

NAN = math.nan
CELLS = ((0.0, 1.0, NAN), (2.0, 4.0, 400.0))
"""Two columns of three rows, the lowest first."""


def surface(x_edges=(0.0, 1.0, 2.0)):
    return Surface("s", "x", "y", x_edges, (0.0, 1.0, 2.0, 3.0), CELLS)


def pictures(drawing):
    found = re.findall(r'href="data:image/png;base64,([^"]+)"', drawing)
    return [matplotlib.image.imread(io.BytesIO(base64.b64decode(data))) for data in found]


def test_cells_are_where_they_belong_and_missing_ones_are_clear():
    light, dark, *_ = pictures(draw_surface(surface()))
    assert light.shape == (3, 2, 4)
    # The first line of a picture is the highest row of the surface.
    assert light[..., 3].tolist() == [[0, 0], [1, 1], [1, 1]]
    colours = palette() / 255
    assert np.allclose(light[2, 0, :3], colours[0], atol=1e-6)
    assert np.allclose(dark[2, 0, :3], colours[-1], atol=1e-6)
    brightness = light[..., :3].sum(-1)
    assert brightness[2, 0] < brightness[1, 0] < brightness[2, 1] < brightness[1, 1]


def test_uneven_cells_keep_their_widths():
    light, *_ = pictures(draw_surface(surface((0.0, 3.0, 4.0))))
    assert light.shape == (3, 300, 4)
    assert (light[2] == light[2, 0]).all(-1).sum() == 225


def test_the_readout_holds_the_same_levels():
    drawing = draw_surface(surface())
    levels = np.frombuffer(base64.b64decode(re.search('data-levels="([^"]+)"', drawing)[1]), np.uint8)
    low, high = (float(re.search(f'data-{end}="([^"]+)"', drawing)[1]) for end in ("low", "high"))
    values = np.where(levels == LEVELS, NAN, low + levels / (LEVELS - 1) * (high - low)).reshape(3, 2)
    expected = np.array(CELLS).T[::-1]
    expected[expected > 15] = NAN
    assert np.allclose(values, expected, atol=0.05, equal_nan=True)


def test_a_surface_without_samples_is_empty():
    drawing = draw_surface(Surface("s", "x", "y", (0.0, 1.0), (0.0, 1.0), ((NAN,),)))
    assert "no samples" in drawing
    assert pictures(drawing)[0][0, 0, 3] == 0


def test_it_says_where_the_lowest_cell_is():
    assert "lowest at 0.5, 0.5; samples in 83 % of the cells" in draw_surface(surface())


def test_steps_of_the_palette_look_alike():
    linear = palette() / 255
    linear = np.where(linear <= 0.04045, linear / 12.92, ((linear + 0.055) / 1.055) ** 2.4)
    cone = np.cbrt(
        linear
        @ np.array(
            [
                [0.4122214708, 0.2119034982, 0.0883024619],
                [0.5363325363, 0.6806995451, 0.2817188376],
                [0.0514459929, 0.1073969566, 0.6299787005],
            ]
        )
    )
    lightness = cone @ np.array([0.2104542553, 0.7936177850, -0.0040720468])
    smooth = np.convolve(np.diff(lightness), np.ones(16) / 16, "valid")
    assert smooth.min() > 0.85 * smooth.max() > 0


@pytest.mark.parametrize("shape", [(1, 1), (7, 300)])
def test_other_programs_read_the_png(shape):
    levels = np.random.default_rng(0).integers(0, LEVELS + 1, shape).astype(np.uint8)
    read = matplotlib.image.imread(io.BytesIO(indexed_png(levels, palette())))
    assert (read[..., 3] == (levels < LEVELS)).all()
    known = levels < LEVELS
    assert np.allclose(read[known][:, :3], palette()[levels[known]] / 255, atol=1e-6)
