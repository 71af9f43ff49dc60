"""Pages: whatever the text, it is shown as text, and nothing is left outside the file."""

import base64
import re
from html.parser import HTMLParser

import pytest
from matplotlib.figure import Figure

from boltzkit.report import Page, png

NASTY = "<script>alert('a & b')</script> \"x\" > 0"


class Reader(HTMLParser):
    """Collects elements, and what each table cell shows."""

    def __init__(self):
        super().__init__()
        self.tags, self.attributes, self.text, self.cells, self.inside = [], [], [], [], False

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(tag, *pair) for pair in attrs]
        if tag in ("td", "th"):
            self.cells.append("")
            self.inside = True

    def handle_endtag(self, tag):
        self.inside = self.inside and tag not in ("td", "th")

    def handle_data(self, data):
        self.text.append(data)
        if self.inside:
            self.cells[-1] += data


def read(page, tmp_path):
    page.write(tmp_path / "deep" / "page.html")
    content = (tmp_path / "deep" / "page.html").read_text()
    reader = Reader()
    reader.feed(content)
    return content, reader


def test_text_is_shown_as_it_is(tmp_path):
    page = Page(NASTY)
    page.heading(NASTY)
    page.text(NASTY)
    page.text(NASTY, note=True)
    page.table([NASTY], [[NASTY]])
    content, reader = read(page, tmp_path)
    assert "script" not in reader.tags
    assert "<script" not in content
    # Title, headline, heading, two paragraphs, two cells.
    assert [part for part in reader.text if "alert" in part] == [NASTY] * 7


def test_a_caption_cannot_leave_its_attribute(tmp_path):
    page = Page("a")
    page.picture(b"content", 'x" onload="alert(1)')
    _, reader = read(page, tmp_path)
    names = [name for tag, name, _ in reader.attributes if tag == "img"]
    assert names == ["alt", "src"]
    assert ("img", "alt", 'x" onload="alert(1)') in reader.attributes


@pytest.mark.parametrize(
    ("cell", "shown"),
    [
        ("**1.0 ± 0.1**", "<b>1.0 ± 0.1</b>"),
        ("**1.0** (2.0)", "<b>1.0</b> (2.0)"),
        ("a **b** c", "a <b>b</b> c"),
        ("**a < b**", "<b>a &lt; b</b>"),
        ("plain", "plain"),
        ("2**3", "2**3"),
    ],
)
def test_marks_become_bold(cell, shown, tmp_path):
    page = Page("a")
    page.table(["t"], [[cell]])
    content, _ = read(page, tmp_path)
    assert f"<td>{shown}</td>" in content


def test_a_filled_first_cell_starts_a_block(tmp_path):
    page = Page("a")
    page.table(["size", "method"], [["500", "a"], ["", "b"], ["1000", "a"]])
    content, reader = read(page, tmp_path)
    assert reader.cells == ["size", "method", "500", "a", "", "b", "1000", "a"]
    assert re.findall(r"<tr( class=\"rule\")?><td>", content) == [' class="rule"', "", ' class="rule"']


def test_a_picture_is_inside_the_page(tmp_path):
    figure = Figure(figsize=(1, 1))
    figure.subplots().plot([0, 1], [0, 1])
    picture = png(figure)
    assert picture.startswith(b"\x89PNG\r\n\x1a\n")
    page = Page("a")
    page.picture(picture, "caption")
    content, reader = read(page, tmp_path)
    (source,) = [value for tag, name, value in reader.attributes if (tag, name) == ("img", "src")]
    kind, _, data = source.partition(",")
    assert kind == "data:image/png;base64"
    assert base64.b64decode(data, validate=True) == picture
    assert "caption" in reader.text
    assert "http" not in content
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["page.html"]


def test_parts_keep_their_order_and_the_page_its_frame(tmp_path):
    page = Page("Title")
    for text in ("one", "two", "three"):
        page.text(text)
    content, reader = read(page, tmp_path)
    assert [part for part in reader.text if part in ("one", "two", "three")] == ["one", "two", "three"]
    assert content.startswith("<!doctype html>")
    assert '<meta charset="utf-8">' in content
    assert reader.tags.count("h1") == 1


def test_two_pages_share_nothing():
    a, b = Page("a"), Page("b")
    a.text("only here")
    assert b.parts == []
