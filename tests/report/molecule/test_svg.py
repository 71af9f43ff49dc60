"""Points land where the axes say, and gaps stay gaps."""

import math
import re

import pytest

from boltzkit.report.molecule.markup import element
from boltzkit.report.molecule.svg import Axis, Frame, Readout

NAN = math.nan


@pytest.fixture
def frame():
    return Frame(Axis.over(0.0, 10.0, "x"), Axis.over(0.0, 5.0, "y"), width=100.0, height=50.0)


def test_the_second_coordinate_grows_upwards(frame):
    assert frame.place(0.0, 0.0) == (0.0, 50.0)
    assert frame.place(10.0, 5.0) == (100.0, 0.0)


def test_lines_break_where_there_is_no_number(frame):
    assert frame.line((0, 1, 2, 3, 4), (0.0, 5.0, NAN, 5.0, math.inf)) == "M0 50L10 0 M30 0L30 0"


def test_a_band_stays_inside_and_has_a_piece_for_each_run(frame):
    assert frame.band((0, 1, 2, 3), (0.0, NAN, -3.0, 1.0), (1.0, 2.0, math.inf, 2.0)) == (
        "M0 50L0 40Z M20 50L30 40L30 30L20 0Z"
    )


def test_steps_start_and_end_at_zero(frame):
    assert frame.steps((0, 5, 10), (5.0, 2.5)) == "M0 50L0 0L50 0L50 25L100 25L100 50"


def test_a_logarithmic_axis(frame):
    axis = Axis.over(0.01, 100.0, "", log=True)
    assert math.isclose(axis.share(1.0), 0.5)
    assert math.isnan(axis.share(0.0))


def test_an_axis_of_no_width_is_widened():
    assert 0 < Axis.over(3.0, 3.0, "").share(3.0) < 1


def test_the_drawing_tells_itself(frame):
    drawn = frame.drawn(
        "what <it> shows", element("path", d="M0 0"), readout=Readout((0.0, 10.0), ("a", "<b>"))
    )
    assert 'aria-label="what &lt;it&gt; shows"' in drawn
    assert (
        'data-readout="{&quot;x&quot;:[0.0,100.0],&quot;text&quot;:[&quot;a&quot;,&quot;&lt;b&gt;&quot;]}"'
        in drawn
    )
    assert re.findall(r"<text[^>]*>([^<]+)<", drawn)[:3] == ["0", "2", "4"]


def test_a_long_label_is_shortened():
    frame = Frame(Axis.over(0.0, 1.0, "x" * 99), Axis.over(0.0, 1.0, ""), width=80.0)
    assert f">{'x' * 9}…<" in frame.drawn("")
