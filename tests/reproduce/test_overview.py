"""The page of results: made from files alone, complete, and up to date in this repository."""

import json
import re
import shlex
import shutil
from pathlib import Path

import pytest

from boltzkit.cli import app, main
from boltzkit.errors import UserError
from boltzkit.reproduce import EXPERIMENTS
from boltzkit.reproduce.evidence import read_note, scale_of
from boltzkit.reproduce.exhibits import EXHIBITS, EXPERIMENT_SECTIONS
from boltzkit.reproduce.overview import overview
from boltzkit.reproduce.published import TRAINING_TIMES

RESULTS = Path(__file__).parents[2] / "results"
pytestmark = pytest.mark.skipif(not RESULTS.is_dir(), reason="source archives come without results")
IGNORED = shutil.ignore_patterns("*.npz", "*.safetensors", "models")


@pytest.fixture(scope="module")
def page() -> str:
    return overview(RESULTS)


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """A copy that may be changed."""
    return shutil.copytree(RESULTS, tmp_path / "results", ignore=IGNORED)


def test_the_page_of_this_repository_is_up_to_date(capsys):
    assert main(["results", "--root", str(RESULTS), "--check"]) == 0, capsys.readouterr().err


def test_no_note_has_a_table_that_was_typed():
    """Tables of notes come from templates, whose numbers the page's check compares with the files."""
    for path in RESULTS.glob("*/README.md"):
        typed = re.sub(r"<!-- table\n.*?<!-- end of table -->", "", path.read_text(), flags=re.DOTALL)
        assert not re.search(r"^ *\|", typed, re.MULTILINE), path


def test_every_table_and_figure_is_there_with_its_state(page):
    names = [exhibit.name for exhibit in EXHIBITS]
    assert names == [f"Table {i}" for i in range(1, 15)] + [f"Figure {i}" for i in range(1, 10)]
    for exhibit in EXHIBITS:
        (line,) = re.findall(rf"^\| {exhibit.name} \|.*$", page, re.MULTILINE)
        assert re.search(r"\| [^|]+ \|$", line)
    assert set(EXPERIMENT_SECTIONS) <= set(EXPERIMENTS)
    assert set(TRAINING_TIMES) <= set(EXPERIMENT_SECTIONS)


def test_its_links_lead_somewhere(page):
    headings = re.findall(r"^#+ (.*)$", page, re.MULTILINE)
    anchors = {re.sub(r"[^\w\- ]", "", h.lower()).strip().replace(" ", "-") for h in headings}
    for target in re.findall(r"\]\(([^)\s]+)\)", page):
        if target.startswith("#"):
            assert target[1:] in anchors, target
        else:
            assert (RESULTS / target).exists(), target


def test_its_commands_exist(page):
    blocks = re.findall(r"^```bash\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    lines = [line for block in blocks for line in block.replace("\\\n", " ").splitlines()]
    lines += re.findall(r"`(boltzkit [^`]*)`", page)
    commands = [shlex.split(line, comments=True)[1:] for line in lines if line.startswith("boltzkit")]
    assert len(commands) > 10
    for words in commands:
        app.parse_args(words, print_error=False, exit_on_error=False)


def test_what_is_missing_is_named_with_its_command(results):
    shutil.rmtree(results / "gmm")
    page = overview(results)
    assert "**Not run yet**: `boltzkit reproduce gmm --scale laptop --out results/gmm`" in page
    assert re.search(r"^\| Table 10 \|.*\| not run yet \|$", page, re.MULTILINE)


def test_numbers_come_from_the_cells(results):
    path = results / "gmm" / "cells" / "500-ldr-l1.json"
    cell = json.loads(path.read_text())
    for run in cell["runs"]:
        run["nll"]["value"] = 7.25
    path.write_text(json.dumps(cell))
    assert "7.250 ± 0.000 (2.734 ± 0.004)" in overview(results)


def test_training_times_count_their_own_rows(page):
    (state,) = (line.split("|")[4].strip() for line in page.splitlines() if line.startswith("| Table 8 "))
    table = page.split("## Training times")[1].split("\n## ")[0]
    rows = [line for line in table.splitlines() if line.startswith("| ") and "published" not in line]
    run = [row for row in rows if "not run yet" not in row]
    assert state == f"{len(run)} of {len(rows)} rows"
    assert len(rows) == len(TRAINING_TIMES)


def test_rows_of_other_settings_are_told(results):
    path = results / "gmm" / "cells" / "500-forward-kl.json"
    assert "500 fwd KL." not in overview(results)
    cell = json.loads(path.read_text())
    cell["question"]["config"]["training"]["steps"] = 7
    path.write_text(json.dumps(cell))
    lines = [line for line in overview(results).splitlines() if line.startswith("From before a change")]
    assert any("500 fwd KL" in line for line in lines)


def test_a_changed_file_is_noticed(results, capsys):
    words = ["results", "--root", str(results)]
    assert main(words) == 0
    assert main([*words, "--check"]) == 0
    readme = results / "gmm" / "README.md"
    readme.write_text(readme.read_text().replace("## Reading\n", "## Reading\n\nSomething new.\n"))
    assert main([*words, "--check"]) == 2
    assert "write it anew with boltzkit results" in capsys.readouterr().err
    assert main(words) == 0
    assert "Something new." in (results / "README.md").read_text()


def test_a_folder_that_nobody_named_is_shown_too(results):
    (results / "something-else").mkdir()
    text = "# Something else\n\n```bash\nboltzkit doctor\n```\n\nIt is [fine](../gmm), see ![x](x.png).\n"
    (results / "something-else" / "README.md").write_text(text)
    page = overview(results)
    assert "### Something else" in page
    assert "It is [fine](gmm), see ![x](something-else/x.png)." in page


def test_nothing_of_a_note_is_lost(results):
    """Of folders that are no experiment, the page has every line, with headings below its own."""
    (results / "other").mkdir()
    rows = "| a |\n|---|\n" + "| 1 |\n" * 80
    block, table = "```bash\n# a comment\nmake docs\n```", "| b |\n|---|\n| 2 |"
    text = f"# Other\n\nMachine: old.\n\n{block}\n\n{table}\n\n## Reading\n\nWell.\n"
    (results / "other" / "README.md").write_text(text)
    (results / "other" / "table.md").write_text(rows)
    page = overview(results)
    section = page.split("### Other\n")[1].split("\n### ")[0]
    for line in text.splitlines()[1:]:
        assert (line.replace("## Reading", "#### Reading")) in section.splitlines()
    assert "[The table](other/table.md) has 82 lines." in section
    (results / "other" / "table.md").write_text("| c |\n|---|\n| 3 |\n")
    assert "| 3 |" in overview(results)


def test_mistakes_are_explained(tmp_path):
    with pytest.raises(UserError, match="no folder"):
        overview(tmp_path / "nothing")
    (tmp_path / "README.md").write_text("no title\n")
    with pytest.raises(UserError, match="does not begin with a title"):
        read_note(tmp_path)
    (tmp_path / "table.md").write_text("# A table without a scale\n")
    with pytest.raises(UserError, match="names no scale"):
        scale_of(tmp_path, ("laptop",))
    assert read_note(tmp_path / "nothing") is None
