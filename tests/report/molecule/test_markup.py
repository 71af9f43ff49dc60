"""Whatever the text, it stays text."""

import json
import re

from hypothesis import given
from hypothesis import strategies as st

from boltzkit.report.molecule.markup import Markup, element, json_block, notation, plain_notation

TEXTS = st.text(st.characters(codec="utf-8", exclude_categories=["Cs", "Cc"]), max_size=60)


@given(TEXTS)
def test_children_and_attributes_are_escaped(text):
    made = element("p", text, title=text)
    assert made.count("<") == made.count(">") == 2
    assert made.count('"') == 2 + text.count('"')
    assert isinstance(made, Markup)
    assert element("b", made) == f"<b>{made}</b>"


@given(TEXTS)
def test_data_come_back_and_hold_no_markup(text):
    block = json_block("x", {"text": text})
    inside = re.fullmatch(r'<script type="application/json" id="x">(.*)</script>', block, re.DOTALL)[1]
    assert json.loads(inside) == {"text": text}
    assert not set("<>&") & set(inside)


def test_attributes_without_a_value_are_left_out():
    assert (
        element("a", hidden=True, title=None, lang=False, x=1.5, y=2.0) == '<a hidden="" x="1.5" y="2"></a>'
    )
    assert element("meta", name="x") == '<meta name="x">'


def test_units_are_set_as_written_by_hand():
    assert notation("1 k_BT") == notation("1 kBT") == '1 <span class="one">k<sub>B</sub>T</span>'
    assert notation("pick_BTree") == "pick_BTree"
    assert notation("[1, 2] <") == '<span class="one">[1, 2]</span> &lt;'
    assert "tspan" in plain_notation("k_BT")
    assert plain_notation("<k") == "&lt;k"
