"""The catalogue of errors in the documentation is read from the source, and its sentences are sentences."""

import re
from pathlib import Path

import pytest

import boltzkit
from boltzkit.cli.app import VERBS, app

PACKAGE = Path(boltzkit.__file__).parent


@pytest.fixture(scope="module")
def module(docs_script):
    return docs_script("error_catalogue")


def test_it_knows_the_sentences(module):
    text = module.catalogue(PACKAGE)
    entries = [line for line in text.splitlines() if line.startswith("- ")]
    assert len(entries) > 400
    assert "- There is no file *path*." in entries
    assert "## training" in text
    assert any("No space left to write *path*" in entry for entry in entries)


def test_every_sentence_ends(module):
    """A message ends like a sentence, or with a part that does (a suggestion, another message)."""
    for file in PACKAGE.rglob("*.py"):
        for sentence in module.sentences(file):
            assert sentence.endswith((".", "?", "*")), (file.name, sentence)


def test_variable_parts_and_joined_texts(module, tmp_path):
    path = tmp_path / "a.py"
    path.write_text(
        "raise UserError(f'{path} has {len(rows)} rows, '\n    'not one.')\n"
        "raise UserError('There is no ' + name + '.')\n"
        "raise ValueError('for developers')\n"
        "raise UserError(sentence)\n"
    )
    assert list(module.sentences(path)) == ["*path* has *number* rows, not one.", "There is no *…*."]


def test_options_that_are_named_exist(module):
    """A sentence that names an option of boltzkit must not send anybody after one that there is not."""
    known = set()
    for verb in VERBS:
        parsed = app[verb.__name__].assemble_argument_collection()
        known |= {name for argument in parsed for name in argument.names}
    known |= {"--help", "--version", "--upgrade"}  # the last one is pip's
    assert "--out" in known
    assert "--no-such-option" not in known
    for file in PACKAGE.rglob("*.py"):
        for sentence in module.sentences(file):
            for option in re.findall(r"(?<![\w-])--[a-z][a-z-]+", sentence):
                assert option in known, (file.name, option, sentence)
