"""The whole page: as text, and as a real browser shows it on screens and paper."""

import base64
import hashlib
import html
import re
from dataclasses import fields, replace
from html.parser import HTMLParser
from itertools import pairwise

import numpy as np
import pytest

from boltzkit.report.molecule import (
    Curve,
    Histogram,
    Interval,
    MoleculeReport,
    Number,
    Reproduction,
    Table,
    molecule_page,
    write_molecule_report,
)

NASTY = "<script>document.title = 'taken'</script> \"quoted\" & <img src=x onerror=alert(1)>"
WORD = "Extraordinarilylongwordwithoutanyspaceatwhichabrowsercouldbreakitintotwolines" * 2


class Reader(HTMLParser):
    """Collects elements with their attributes, and what is shown."""

    def __init__(self, content):
        super().__init__()
        self.elements, self.text, self.silent = [], [], 0
        self.feed(content)

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        self.silent += tag in ("script", "style")

    def handle_endtag(self, tag):
        self.silent -= tag in ("script", "style")

    def handle_data(self, data):
        if not self.silent:
            self.text.append(data)

    def found(self, *tags):
        return [attributes for tag, attributes in self.elements if tag in tags]


def empty(**given):
    """Return a report with nothing but what is given."""
    content = {field.name: () for field in fields(MoleculeReport)} | {
        "title": "x",
        "subtitle": "",
        "verdict": "trust",
        "reproduction": Reproduction((), "", {}),
    }
    return MoleculeReport(**content | given)


def with_texts(report, text):
    """Return a report where every text that a user may have chosen is another one."""
    return replace(
        report,
        title=text,
        subtitle=text,
        reasons=(text, text),
        headline=(Number(text, text, text), *report.headline),
        structures=tuple(replace(structure, label=text, note=text) for structure in report.structures),
        tables=(Table(text, (Interval(text, 1.0, 0.5, 2.0, text, text),), text),),
        surfaces=tuple(replace(s, title=text, x_label=text, y_label=text) for s in report.surfaces),
        profiles=tuple(replace(profile, title=text, unit=text) for profile in report.profiles),
        histograms=(Histogram(text, text, (0.0, 1.0), {text: (1.0,), "data": (0.5,)}),),
        curves=(Curve(text, text, text, {text: ((0.0, 1.0), (1.0, 2.0)), "b": ()}),),
        remarks=(text,),
        reproduction=Reproduction((text,), text, {text: text}),
    )


# As text ---------------------------------------------------------------------------------------------------


def test_the_page_is_small_complete_and_the_same_every_time(report, page):
    content = page.read_text()
    assert content == molecule_page(report)
    assert len(content.encode()) < 1_000_000
    # The licence asks to be shipped with the code.
    assert "University of Pittsburgh and contributors" in content
    assert "Redistributions in binary form must reproduce" in content
    assert [path.name for path in page.parent.iterdir()] == ["report.html"]


def test_the_policy_names_exactly_the_scripts_and_the_style_of_the_page(page):
    content = page.read_text()
    (policy,) = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]+)"', content)
    policy = html.unescape(policy)
    inline = re.findall(r"<(script|style)>(.*?)</\1>", content, re.DOTALL)
    assert [tag for tag, _ in inline] == ["style", "script", "script"]
    digests = {base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for _, text in inline}
    assert set(re.findall(r"sha256-([\w+/=]+)", policy)) == digests
    assert policy.startswith("default-src 'none';")
    assert "unsafe" not in policy
    assert "http" not in policy


def test_landmarks_headings_and_names_are_in_order(page):
    reader = Reader(page.read_text())
    for tag in ("nav", "main", "header", "footer", "h1"):
        assert len(reader.found(tag)) == 1, tag
    levels = [int(tag[1]) for tag, _ in reader.elements if re.fullmatch("h[1-6]", tag)]
    assert levels[0] == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))
    identifiers = [attributes["id"] for _, attributes in reader.elements if "id" in attributes]
    assert len(identifiers) == len(set(identifiers))
    for attributes in reader.found("section"):
        assert attributes["aria-labelledby"] in identifiers
    for attributes in reader.found("a", "use"):
        assert attributes["href"].startswith("#")
        assert attributes["href"][1:] in identifiers
    drawings = [attributes for attributes in reader.found("svg") if attributes.get("class") != "inside"]
    assert all(a.get("aria-hidden") == "true" or len(a.get("aria-label", "")) > 20 for a in drawings)
    assert all("scope" in attributes for attributes in reader.found("th"))
    assert not any("style" in attributes for _, attributes in reader.elements)


def test_every_text_is_shown_as_it_is(report):
    content = molecule_page(with_texts(report, NASTY))
    reader = Reader(content)
    assert len(reader.found("script")) == 3
    assert reader.found("img") == []
    assert not any(name.startswith("on") for _, attributes in reader.elements for name in attributes)
    assert sum(text == NASTY for text in reader.text) > 20
    assert "<script>document" not in content


def test_what_is_empty_leaves_no_trace():
    content = molecule_page(empty())
    assert len(content) < 60_000
    reader = Reader(content)
    links = [attributes["href"] for attributes in reader.found("a") if not attributes.get("class")]
    assert links == ["#reproduce", "#meaning"]
    assert "Pittsburgh" not in content
    assert reader.found("table") == reader.found("figure") == reader.found("pre") == []


@pytest.mark.parametrize(
    ("level", "sentence"),
    [
        ("trust", "These numbers can be trusted"),
        ("with care", "Use these numbers with care"),
        ("do not trust", "Do not trust these numbers"),
    ],
)
def test_the_verdict_is_said_in_words_and_by_a_shape(level, sentence):
    reader = Reader(molecule_page(empty(verdict=level, reasons=("Because.",))))
    assert {f"Verdict: {level}", sentence, "Because."} <= set(reader.text)
    (shape,) = [attributes["d"] for attributes in reader.found("path") if attributes.get("class") == "shape"]
    others = {"trust", "with care", "do not trust"} - {level}
    assert all(shape not in molecule_page(empty(verdict=other)) for other in others)


# In a browser ----------------------------------------------------------------------------------------------

OVERFLOW = """[...document.querySelectorAll('body *')].filter(element => {
  const box = element.getBoundingClientRect();
  const scrolls = element.closest('nav ul, pre, .unseen, .skip, .symbols, .inside, thead th:nth-child(3)');
  return !scrolls && box.width && (box.right > innerWidth + 0.5 || box.left < -0.5);
}).map(element => element.outerHTML.slice(0, 120))"""

CONTRAST = """(() => {
  const parse = text => text.match(/[\\d.]+/g).map(Number);
  const light = ([r, g, b]) => [r, g, b].map(v => v / 255)
    .map(v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = element => {
    for (let e = element; e; e = e.parentElement) {
      const found = parse(getComputedStyle(e).backgroundColor);
      if (found.length === 3 || found[3] === 1) return found;
    }
  };
  const worst = [];
  for (const element of document.querySelectorAll('body *')) {
    const own = [...element.childNodes].some(node => node.nodeType === 3 && node.textContent.trim());
    if (!own || element.closest('script, .skip') || !element.checkVisibility()) continue;
    const style = getComputedStyle(element);
    const front = parse(element.closest('svg') ? style.fill : style.color);
    const [a, b] = [light(front), light(behind(element))].sort((x, y) => y - x);
    worst.push([(a + 0.05) / (b + 0.05), element.textContent.slice(0, 40)]);
  }
  return worst.sort((x, y) => x[0] - y[0]);
})()"""


@pytest.mark.parametrize("width", [320, 360, 700, 1280])
def test_nothing_sticks_out(plain_browser, page, width):
    plain_browser.open(page, width=width, height=700, touch=width < 500)
    assert plain_browser.run("document.documentElement.scrollWidth") <= width
    assert plain_browser.run(OVERFLOW) == []
    assert plain_browser.complaints() == []
    assert plain_browser.requests() == [page.as_uri()]
    # A control that must be found.
    plain_browser.run("document.querySelector('main p').insertAdjacentHTML('afterend', '<div id=w>x</div>')")
    plain_browser.run("document.getElementById('w').style.width = '3000px'")
    assert len(plain_browser.run(OVERFLOW)) == 1


def test_long_words_do_not_stick_out_either(plain_browser, report, tmp_path):
    write_molecule_report(with_texts(report, WORD), tmp_path / "page.html")
    plain_browser.open(tmp_path / "page.html", width=360, height=700, touch=True)
    assert plain_browser.run(OVERFLOW) == []
    assert plain_browser.run("document.documentElement.scrollWidth") <= 360


def test_texts_with_markup_are_harmless(plain_browser, report, tmp_path):
    write_molecule_report(with_texts(report, NASTY), tmp_path / "page.html")
    plain_browser.open(tmp_path / "page.html")
    for place in range(len(report.structures)):
        plain_browser.click(f'[data-structure="{place}"]')
    assert plain_browser.run("document.querySelector('h1').textContent") == NASTY
    assert plain_browser.run("document.title") == f"{NASTY} · boltzkit"
    assert plain_browser.complaints() == []


def test_the_policy_stops_what_was_smuggled_in(plain_browser, page, tmp_path):
    smuggled = "<script>document.title = 'taken'</script><img src='http://localhost:9/x.png'>"
    (tmp_path / "page.html").write_text(page.read_text().replace("</main>", f"{smuggled}</main>"))
    plain_browser.open(tmp_path / "page.html")
    assert plain_browser.run("document.title") == "Alanine dipeptide · boltzkit"
    assert len(plain_browser.complaints()) == 2


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_text_can_be_read(plain_browser, page, theme):
    plain_browser.open(page, theme=theme)
    worst = plain_browser.run(CONTRAST)
    assert len(worst) > 100
    assert worst[0][0] >= 4.5, worst[:5]
    plain_browser.run("document.querySelector('h1').style.color = 'grey'")
    plain_browser.run("document.querySelector('h1').style.background = 'dimgrey'")
    assert plain_browser.run(CONTRAST)[0][0] < 4.5


@pytest.mark.parametrize("level", ["with care", "do not trust"])
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_verdict_can_be_read(plain_browser, tmp_path, level, theme):
    write_molecule_report(empty(verdict=level, reasons=("a", "b")), tmp_path / "page.html")
    plain_browser.open(tmp_path / "page.html", theme=theme)
    assert plain_browser.run(CONTRAST)[0][0] >= 4.5


def test_dark_and_light_differ_and_paper_is_always_light(plain_browser, page):
    plain_browser.open(page, width=700, height=500)
    light = plain_browser.picture()
    plain_browser.show_as("dark")
    plain_browser.settle()
    dark = plain_browser.picture()
    assert light.mean() > 0.85
    assert dark.mean() < 0.2
    plain_browser.show_as("dark", media="print")
    plain_browser.settle()
    assert plain_browser.picture().mean() > 0.85
    assert plain_browser.run("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    # The stills stand in for the picture that cannot be turned on paper.
    assert plain_browser.box("#view")[2:] == [0, 0]
    assert plain_browser.box(".thumbnail")[2] > 100
    assert plain_browser.box("nav")[3] == 0
    assert plain_browser.box(".on-light")[2] > 0
    assert plain_browser.box(".on-dark")[2] == 0


def test_it_prints_on_a4(plain_browser, page):
    plain_browser.open(page, media="")
    pdf = base64.b64decode(plain_browser.call("Page.printToPDF", preferCSSPageSize=True)["data"])
    sizes = re.findall(rb"/MediaBox \[0 0 ([\d.]+) ([\d.]+)\]", pdf)
    assert 3 <= len(sizes) <= 6
    assert np.allclose(np.array(sizes, dtype=float), (595, 842), atol=1)


def pointed(browser, place, x, y):
    """Point at a share of a figure's plot and return what its caption says."""
    plot = f".figures > :nth-child({place}) .plot"
    browser.picture(plot)
    left, top, width, height = browser.box(plot)
    browser.mouse("mouseMoved", left + x * width, top + y * height)
    browser.settle()
    return browser.run(f"document.querySelector('.figures > :nth-child({place}) .caption').innerText")


def test_pointing_at_a_plot_tells_its_numbers(plain_browser, page):
    plain_browser.open(page)
    assert re.fullmatch(
        r"φ / degrees −?\d+, ψ / degrees −?\d+: [01]\.\d kBT", pointed(plain_browser, 1, 0.23, 0.14)
    )
    assert re.fullmatch(r"φ / degrees \d+, ψ / degrees −\d+: empty", pointed(plain_browser, 1, 0.6, 0.75))
    found = pointed(plain_browser, 2, 0.34, 0.5)
    assert re.fullmatch(r"−?\d+ degrees: 0\.\d\d \[−?0\.\d\d, 0\.\d\d\] kBT", found)
    plain_browser.mouse("mouseMoved", 1, 1)
    plain_browser.settle()
    caption = plain_browser.run("document.querySelector('.figures > :nth-child(2) .caption').innerText")
    assert caption == "Shaded: 95 % interval. Dashed: before reweighting."
    assert plain_browser.run("document.querySelectorAll('.hair, .spot').length") == 0


def test_a_page_without_pictures_works(plain_browser, tmp_path):
    write_molecule_report(empty(), tmp_path / "page.html")
    plain_browser.open(tmp_path / "page.html", width=360)
    assert plain_browser.run("document.documentElement.scrollWidth") <= 360
    assert plain_browser.complaints() == []


def test_keys_reach_everything_and_show_where_they_are(plain_browser, page):
    plain_browser.open(page)
    seen = []
    for _ in range(60):
        plain_browser.call("Input.dispatchKeyEvent", type="rawKeyDown", key="Tab", windowsVirtualKeyCode=9)
        plain_browser.call("Input.dispatchKeyEvent", type="keyUp", key="Tab", windowsVirtualKeyCode=9)
        found = plain_browser.run(
            "(e => [e.outerHTML.slice(0, 80), getComputedStyle(e).outlineStyle])(document.activeElement)"
        )
        if found[0].startswith("<body"):
            break
        seen.append(found)
    assert all(outline != "none" for _, outline in seen)
    assert sum("data-structure" in html or "thumbnail" in html for html, _ in seen) >= 4
    assert any("<summary" in html for html, _ in seen)
    assert any("data-copy" in html for html, _ in seen)
