"""Tables in notes: numbers come from files, mistakes are named."""

import pytest

from boltzkit.errors import UserError
from boltzkit.reproduce.note_tables import filled, without_templates
from boltzkit.storage import write_json

NOTE = """# Title

<!-- table
| | ESS, % | log Z | cost |
|---|---|---|---|
| a | {a/summary.json[ess]!h:.1f} | {a/summary.json[log z][0]:.2f} | {table.csv[stage=energy][value]:.0f} µs |
-->
| old |
<!-- end of table -->

Words.
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "a").mkdir()
    write_json(tmp_path / "a" / "summary.json", {"ess": 0.2836, "log z": [-1.234]})
    (tmp_path / "table.csv").write_text("stage,value\nflow,1\nenergy,3.6\n")
    return tmp_path


def test_numbers_come_from_files(folder):
    text = filled(NOTE, folder)
    assert "\n| a | 28.4 | −1.23 | 4 µs |\n<!-- end of table -->\n\nWords.\n" in text
    assert "old" not in text
    assert filled(text, folder) == text
    write_json(folder / "a" / "summary.json", {"ess": 0.5, "log z": [1.0]})
    assert "| a | 50.0 | 1.00 |" in filled(text, folder)


def test_readers_do_not_see_the_template(folder):
    text = without_templates(filled(NOTE, folder))
    assert "{" not in text
    assert "| a | 28.4 |" in text
    assert "<!--" not in text


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (("a/summary", "b/summary"), r"asks for b/summary\.json, which is not there"),
        (("[ess]", "[ESS]"), r"asks for a/summary\.json\[ESS\], and there is no 'ESS' there"),
        (("stage=energy", "stage=sleep"), "no 'stage=sleep' there"),
    ],
)
def test_what_is_missing_is_named(folder, change, sentence):
    with pytest.raises(UserError, match=sentence):
        filled(NOTE.replace(*change), folder)
