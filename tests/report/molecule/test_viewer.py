"""The molecule in a real browser: it is drawn, it can be turned and switched, and it is there without WebGL too."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest

from boltzkit.report.molecule import write_molecule_report


def pressed(browser):
    return browser.run("[...document.querySelectorAll('[aria-pressed=true]')].map(b => b.textContent)")


def differ(a, b):
    """Return the share of pixels that differ visibly."""
    return float((np.abs(a - b).max(-1) > 0.1).mean())


@pytest.fixture(scope="module")
def molecule(browser, page):
    """A browser that shows the page; every test leaves the view as it found it."""
    browser.open(page, width=380, height=420)
    return browser


def test_the_molecule_is_drawn_without_complaint_or_request(molecule, page):
    picture = molecule.picture("#view")
    background = picture[5, 5]
    molecule_share = (np.abs(picture - background).max(-1) > 0.15).mean()
    assert 0.03 < molecule_share < 0.6
    # Red oxygen and blue nitrogen, each more than a speck.
    red, green, blue = picture[..., 0], picture[..., 1], picture[..., 2]
    assert (red > green + 0.3).mean() > 1e-3
    assert (blue > red + 0.2).mean() > 1e-3
    assert molecule.complaints() == []
    assert molecule.requests() == [page.as_uri()]
    assert molecule.run("document.getElementById('no-webgl').hidden")
    assert molecule.run("getComputedStyle(document.querySelector('#view > .still')).display") == "none"


def test_a_button_switches_the_structure(molecule, report):
    first = molecule.picture("#view")
    molecule.click('[data-structure="3"]')
    other = molecule.picture("#view")
    assert differ(first, other) > 0.02
    assert molecule.run("document.getElementById('view').getAttribute('aria-label')").endswith("αL")
    assert "αL, population 2.4 %" in molecule.run("document.getElementById('view-status').textContent")
    assert pressed(molecule)[-1].startswith("αL")
    molecule.click('[data-structure="0"]')
    assert differ(first, molecule.picture("#view")) < 1e-3


def test_keys_turn_zoom_and_reset(molecule):
    start = molecule.picture("#view")
    molecule.run("document.getElementById('view').focus()")
    for key in ("ArrowRight", "ArrowUp", "+"):
        before = molecule.picture("#view")
        molecule.press(key)
        assert differ(before, molecule.picture("#view")) > 0.003, key
    before = molecule.picture("#view")
    molecule.press("x")
    assert differ(before, molecule.picture("#view")) < 1e-3
    molecule.press("0")
    # The focus ring came with the keys.
    assert differ(start[10:-10, 10:-10], molecule.picture("#view")[10:-10, 10:-10]) < 1e-3


def test_the_mouse_turns_and_the_wheel_zooms_only_what_was_chosen(molecule):
    molecule.run("document.activeElement.blur()")
    start = molecule.picture("#view")
    x, y, width, height = molecule.box("#view")
    x, y = x + width / 2, y + height / 2
    molecule.mouse("mouseWheel", x, y, deltaX=0, deltaY=4)
    molecule.pause()
    assert differ(start, molecule.picture("#view")) < 1e-3
    molecule.mouse("mousePressed", x, y, button="left", buttons=1, clickCount=1)
    for step in range(1, 4):
        molecule.mouse("mouseMoved", x + 20 * step, y, button="left", buttons=1)
    molecule.mouse("mouseReleased", x + 60, y, button="left", clickCount=1)
    molecule.pause()
    turned = molecule.picture("#view")
    assert differ(start, turned) > 0.02
    assert molecule.run("document.activeElement.id") == "view"
    molecule.mouse("mouseWheel", x, y, deltaX=0, deltaY=120)
    molecule.pause()
    assert differ(turned, molecule.picture("#view")) > 0.01
    molecule.click('[data-tool="reset"]')


def test_pointing_at_an_atom_names_it(molecule):
    picture = molecule.picture("#view")
    # The middle of the red pixels on the left is the oxygen of the first residue.
    rows, columns = np.nonzero(picture[..., 0] > picture[..., 1] + 0.3)
    left = columns < picture.shape[1] / 2
    x, y, _, _ = molecule.box("#view")
    molecule.mouse("mouseMoved", x + np.median(columns[left]), y + np.median(rows[left]))
    molecule.pause()
    assert molecule.run("document.getElementById('atom-name').innerText") == "ACE 1 O"
    molecule.mouse("mouseMoved", x + 8, y + 8)
    molecule.pause()
    assert molecule.run("document.getElementById('atom-name').hidden")


def test_tools_change_the_style(molecule):
    start = molecule.picture("#view")
    molecule.click('[data-tool="spheres"]')
    spheres = molecule.picture("#view")
    assert differ(start, spheres) > 0.05
    assert "Spheres" in pressed(molecule)
    assert "Balls and sticks" not in pressed(molecule)
    molecule.click('[data-tool="hydrogens"]')
    assert differ(spheres, molecule.picture("#view")) > 0.02
    assert "Hydrogens" not in pressed(molecule)
    molecule.click('[data-tool="hydrogens"]')
    molecule.click('[data-tool="balls"]')
    assert differ(start[10:-10, 10:-10], molecule.picture("#view")[10:-10, 10:-10]) < 1e-3


def test_the_dark_theme_reaches_the_picture(molecule):
    light = molecule.picture("#view")[5, 5]
    molecule.show_as("dark")
    molecule.pause()
    assert molecule.picture("#view")[5, 5].mean() < light.mean() - 0.5
    molecule.show_as("light")
    assert molecule.complaints() == []


def touched(browser, *moves):
    """Put a finger on the middle of the picture, move it, and lift it."""
    x, y, width, height = browser.box("#view")
    x, y = x + width / 2, y + height / 2
    browser.call("Input.dispatchTouchEvent", type="touchStart", touchPoints=[{"x": x, "y": y}])
    for dx, dy in moves:
        browser.call("Input.dispatchTouchEvent", type="touchMove", touchPoints=[{"x": x + dx, "y": y + dy}])
    browser.call("Input.dispatchTouchEvent", type="touchEnd", touchPoints=[])
    browser.pause()


def test_a_finger_scrolls_past_the_picture_and_turns_it_once_it_was_tapped(browser, page):
    browser.open(page, width=320, height=420, touch=True)
    assert browser.run("getComputedStyle(document.querySelector('.hint')).display") == "block"
    start, before = browser.picture("#view"), browser.run("scrollY")
    touched(browser, *((0, -12 * step) for step in range(1, 6)))
    assert browser.run("scrollY") > before + 20
    assert differ(start, browser.picture("#view")) < 1e-3
    touched(browser)
    assert browser.run("document.activeElement.id") == "view"
    assert browser.run("getComputedStyle(document.querySelector('.hint')).display") == "none"
    before = browser.run("scrollY")
    touched(browser, *((12 * step, -6 * step) for step in range(1, 6)))
    assert browser.run("scrollY") == before
    assert differ(start, browser.picture("#view")) > 0.02
    assert browser.complaints() == []


def test_without_webgl_there_is_a_still(plain_browser, page):
    plain_browser.open(page, width=600, height=500)
    assert plain_browser.run("document.querySelector('#view canvas')") is None
    assert not plain_browser.run("document.getElementById('no-webgl').hidden")
    assert plain_browser.run("[...document.querySelectorAll('[data-tool]')].every(b => b.hidden)")
    first = plain_browser.picture("#view")
    assert (np.abs(first - first[5, 5]).max(-1) > 0.15).mean() > 0.03
    plain_browser.click('[data-structure="3"]')
    assert differ(first, plain_browser.picture("#view")) > 0.02
    assert plain_browser.complaints() == []


def test_names_cannot_end_the_data_block(report, tmp_path):
    nasty = "</script><script>alert(1)</script><!-- & \u2028"
    structures = (replace(report.structures[0], label=nasty, note=nasty), *report.structures[1:])
    write_molecule_report(replace(report, structures=structures), tmp_path / "page.html")
    content = (tmp_path / "page.html").read_text()
    (block,) = re.findall(
        r'<script type="application/json" id="structures">(.*?)</script>', content, re.DOTALL
    )
    assert json.loads(block)[0]["label"] == nasty
    assert not set("<>&") & set(block)
