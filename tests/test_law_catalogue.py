"""The catalogue of tests in the documentation is read from the tests, each of which says what it shows."""

from pathlib import Path

import pytest

TESTS = Path(__file__).parent


@pytest.fixture(scope="module")
def module(docs_script):
    return docs_script("law_catalogue")


def test_every_file_says_what_it_shows(module):
    for found in module.shown(TESTS):
        assert found.sentence.endswith("."), found.file
        assert found.tests, found.file


def test_files_and_tests_are_there(module):
    text = module.law_catalogue(TESTS)
    assert (
        "`tests/test_law_catalogue.py`\n\n- every file says what it shows\n- files and tests are there"
        in text
    )
    assert "## flow\n" in text


def test_a_file_that_says_nothing_is_noticed(module, tmp_path):
    (tmp_path / "test_mute.py").write_text("def test_a_thing():\n    pass\n")
    (found,) = module.shown(tmp_path)
    assert (found.sentence, found.tests) == ("", ("a thing",))
