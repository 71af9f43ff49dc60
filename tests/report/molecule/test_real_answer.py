"""The page that `boltzkit run` writes, in a real browser."""

import pytest

from boltzkit.run import AnswerFolder, Request, answer


@pytest.fixture
def found(small_answers, tmp_path):
    folder = AnswerFolder(tmp_path)
    answer(Request(molecule="alanine-dipeptide", minutes=0.001, effective=300), folder, lambda text: None)
    return folder.report


def test_it_is_drawn_without_complaint_or_request(browser, found):
    browser.open(found)
    assert browser.complaints() == []
    assert browser.requests() == [found.as_uri()]
    # A dozen steps teach nothing, and the first thing on the page says so.
    assert "Do not trust" in browser.run("document.querySelector('[class*=verdict]').innerText")
    assert browser.picture("#view").std() > 0.01
    assert browser.run("document.documentElement.scrollWidth <= innerWidth")
