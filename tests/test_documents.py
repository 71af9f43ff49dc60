"""Documents that cannot go stale: their Python runs, their commands exist, and they name no machine.

In README.md, CONTRIBUTING.md and docs/*.md every ```python block is run, in order, one namespace per file, unless the
line ``<!-- not run: why -->`` stands right before it. In ```console blocks the lines after ``$``, and in ```bash blocks
all lines, that start with ``boltzkit`` must be accepted by the command line's parser, options included; those that
take seconds are run by test_document_commands.py.
"""

import re
import shlex
import subprocess
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
NOT_RUN = re.compile(r"<!-- not run: \S.* -->")


@dataclass(frozen=True)
class Block:
    language: str
    code: str
    line: int
    marked_not_run: bool


def blocks(text: str) -> Iterator[Block]:
    """Yield the fenced blocks of a Markdown text."""
    lines = text.splitlines()
    start = None
    for number, line in enumerate(lines):
        if not line.lstrip().startswith("```"):
            continue
        if start is None:
            start = number
        else:
            language = lines[start].strip().strip("`").strip()
            code = textwrap.dedent("\n".join(lines[start + 1 : number]))
            yield Block(language, code, start + 2, NOT_RUN.fullmatch(_last_words(lines[:start])) is not None)
            start = None


def _last_words(lines: list[str]) -> str:
    return next((line.strip() for line in reversed(lines) if line.strip()), "")


def run_python(text: str, name: str) -> None:
    """Run the Python blocks of a document; an error points at the document's own line."""
    namespace: dict[str, Any] = {"__name__": "__document__"}
    for block in blocks(text):
        if block.language == "python" and not block.marked_not_run:
            code = "\n" * (block.line - 1) + block.code
            exec(compile(code, name, "exec"), namespace)


def commands(text: str) -> Iterator[list[str]]:
    """Yield the arguments of every ``boltzkit`` command line shown in a document."""
    for block in blocks(text):
        prompt = {"console": "$ ", "bash": "", "sh": ""}.get(block.language)
        if prompt is None:
            continue
        for line in block.code.replace("\\\n", " ").splitlines():
            if line.strip().startswith(f"{prompt}boltzkit"):
                yield _arguments(line.strip().removeprefix(prompt))


def _arguments(line: str) -> list[str]:
    words = shlex.split(line, comments=True)[1:]
    ends = [i for i, word in enumerate(words) if word in {"|", "&&", ";", ">", "&"}]
    return words[: ends[0]] if ends else words


def check_command(arguments: list[str]) -> None:
    """Parse a command line without running it."""
    from boltzkit.cli import app

    app.parse_args(arguments, print_error=False, exit_on_error=False)


def text_files() -> Iterator[Path]:
    """Yield the files a clone would hold: what git tracks or would track."""
    listing = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if listing.returncode:
        pytest.skip("not a git clone")
    for name in listing.stdout.split("\0"):
        path = ROOT / name
        if name and path.is_file() and b"\0" not in path.read_bytes()[:4096]:
            yield path


# Written as patterns, so that this file does not name what it looks for.
_FOLDERS = r"(?<![\w.:/-])/(?:work|opt|root|home|Users|tmp/dev)/"
_HOSTS = r"pypi\.org|pythonhosted\.org|anaconda\.org|download\.pytorch|file:/{2}"
OF_A_MACHINE = re.compile(f"{_FOLDERS}|{_HOSTS}")


def relative(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("document", DOCUMENTS, ids=relative)
def test_python_blocks_run(document: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run_python(document.read_text(), document.name)


@pytest.mark.parametrize("document", DOCUMENTS, ids=relative)
def test_shown_commands_exist(document: Path) -> None:
    for arguments in commands(document.read_text()):
        check_command(arguments)


def test_the_demo_commands_exist() -> None:
    recipe = (ROOT / "Makefile").read_text().replace("$(BIN)/boltzkit", "boltzkit")
    lines = re.findall(r"^\t@(boltzkit .*)", recipe, re.MULTILINE)
    assert len(lines) == 2
    for line in lines:
        check_command(_arguments(line))


def test_no_file_names_a_machine() -> None:
    found = [
        f"{relative(path)}: {match[0]}"
        for path in text_files()
        for match in OF_A_MACHINE.finditer(path.read_text(errors="replace"))
    ]
    assert found == []


def test_a_broken_python_block_is_caught() -> None:
    good, bad = "```python\nx = 1\n```\n", "```python\nassert x == 2\n```\n"
    run_python(good + "\n<!-- not run: it is wrong -->\n" + bad, "document")
    with pytest.raises(AssertionError):
        run_python(good + "\n<!-- not run -->\n" + bad, "document")  # without a reason it counts
    with pytest.raises(AssertionError):
        run_python(good + bad, "document")


@pytest.mark.parametrize("line", ["boltzkit frobnicate", "boltzkit train gmm --no-such-option 1"])
def test_a_wrong_command_is_caught(line: str) -> None:
    (arguments,) = commands(f"```console\n$ {line}  # a comment\noutput\n```\n")
    assert arguments == line.split()[1:]
    with pytest.raises(Exception, match=r"Unknown"):
        check_command(arguments)


@pytest.mark.parametrize("text", ["cd {}work{}x", "--find-links=file:{}{}x", "see '{}home{}me'"])
def test_a_machine_is_recognised(text: str) -> None:
    assert OF_A_MACHINE.search(text.format("/", "/"))
    assert not OF_A_MACHINE.search("https://example.com/work/x and src/opt/x")
