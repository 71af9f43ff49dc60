"""Tables: digits that the interval supports, points below each other, bars on one scale."""

import math
import re

import pytest

from boltzkit.report.molecule import Interval, Table
from boltzkit.report.molecule.interval_table import draw_table


def table(*rows):
    return draw_table(Table("Title", rows, "Caption."), "t")


def shown(drawing, style):
    return re.findall(rf'class="{style}"[^>]*>([^<]*)<', drawing)


@pytest.mark.parametrize(
    ("half", "value", "ends"),
    [
        (0.99, "44.1", "[43.1, 45.1]"),
        (0.23, "44.12", "[43.89, 44.35]"),
        (12.0, "44", "[32, 56]"),
        (0.0, "44.1", "[44.1, 44.1]"),
        (math.inf, "44.1", "[−∞, ∞]"),
        (1e-9, "44.1230", "[44.1230, 44.1230]"),
    ],
)
def test_digits_follow_the_interval(half, value, ends):
    drawing = table(Interval("a", 44.123, 44.123 - half, 44.123 + half))
    assert shown(drawing, "value") == [value]
    assert shown(drawing, "number ends") == [ends]


def test_decimal_points_stand_below_each_other():
    rows = (
        Interval("a", 1.0, 0.98, 1.02),
        Interval("b", 20.0, 19.2, 20.8),
        Interval("c", 300.0, 280.0, 320.0),
    )
    values = shown(table(*rows), "value")
    assert len({len(text) - re.search(r"[.\u2008]", text).start() for text in values}) == 1
    assert [text.rstrip("\u2007\u2008") for text in values] == ["1.000", "20.0", "300"]


def test_bars_of_one_unit_share_a_scale_with_zero():
    drawing = table(Interval("a", 2.0, 1.0, 3.0, "k_BT"), Interval("b", 4.0, 3.0, 5.0, "k_BT"))
    spans = re.findall(r'class="span" x1="([\d.]+)%" x2="([\d.]+)%"', drawing)
    (a_low, a_high), (b_low, b_high) = [tuple(map(float, span)) for span in spans]
    assert a_high == b_low
    assert math.isclose(a_high - a_low, b_high - b_low, abs_tol=0.02)
    assert drawing.count('class="zero"') == 2
    assert 'class="scale"' in drawing


def test_a_far_zero_is_left_out():
    assert 'class="zero"' not in table(Interval("a", -13.8, -13.9, -13.7), Interval("b", -13.6, -13.7, -13.5))


def test_units_are_said_once_or_in_each_row():
    same = table(Interval("a", 1.0, 0.0, 2.0, "nm"), Interval("b", 1.0, 0.0, 2.0, "nm"))
    assert same.count(">nm<") == 1
    mixed = table(Interval("a", 1.0, 0.0, 2.0, "nm"), Interval("b", 1.0, 0.0, 2.0, "%"))
    assert "nm</span>" in mixed
    assert 'class="scale"' not in mixed


def test_a_missing_value_has_no_bar():
    drawing = table(Interval("a", math.nan, -math.inf, math.inf), Interval("b", 1.0, 0.5, math.inf))
    assert shown(drawing, "value")[0].rstrip("\u2007\u2008") == "–"
    assert drawing.count('class="bar"') == 1
    assert 'x2="100.00%"' in drawing


def test_a_table_of_nothing_is_a_table():
    assert "<table" in table()
