"""Sphinx configuration: Markdown pages, and an API reference from the docstrings."""

import re
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
from error_catalogue import catalogue
from law_catalogue import law_catalogue

project = "boltzkit"
author = "boltzkit developers"
copyright = "2026, boltzkit developers"
release = version = metadata.version("boltzkit")

extensions = [
    "formulas",
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
]
exclude_patterns = ["_build"]
templates_path = ["_templates"]
html_theme = "furo"
html_title = "boltzkit"
html_math_renderer = "mathml"

myst_enable_extensions = ["amsmath", "colon_fence", "dollarmath"]
myst_heading_anchors = 3

default_role = "code"
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_use_ivar = True
autosummary_generate = True
autodoc_inherit_docstrings = False
autodoc_preserve_defaults = True
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
# The summation of an objective is a field that holds a function, which autodoc takes for a method.
autodoc_default_options = {"exclude-members": "model_config, total", "special-members": "__call__"}

_DISPLAY = re.compile(r"\$\$(.+?)\$\$[ \t]*", re.DOTALL)
_INLINE = re.compile(r"\$([^$\n]+?)\$(?!\w)")
_CODE = re.compile(r"(:math:`[^`]*`|``.*?``|`[^`]*`)")


def markdown_to_rest(text: str) -> str:
    """Translate what our docstrings write as Markdown: $...$ and $$...$$, and bars as in |x|."""
    prose_and_formulas = _DISPLAY.split(text)
    for i, part in enumerate(prose_and_formulas):
        if i % 2:
            lines = [f"   {line.strip()}" for line in part.strip().split("\n")]
            prose_and_formulas[i] = "\n".join(["", "", ".. math::", "", *lines, "", ""])
        else:
            prose_and_formulas[i] = "\n".join(_prose(line) for line in part.split("\n"))
    return "".join(prose_and_formulas)


def _prose(line: str) -> str:
    if line.lstrip().startswith((">>>", "...")):
        return line
    line = _INLINE.sub(r":math:`\1`", line)
    # reStructuredText would take |x| for a substitution; inside code and formulas bars are safe.
    parts = _CODE.split(line)
    return "".join(part if i % 2 else part.replace("|", r"\|") for i, part in enumerate(parts))


def _process(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    lines[:] = markdown_to_rest("\n".join(lines)).split("\n")
    if what in {"attribute", "property"}:
        # Napoleon takes what stands before a colon in the first line for a type: an empty comment goes first.
        lines[:0] = ["..", ""]


_RESULTS = Path(__file__).parents[1] / "results"
_PICTURE = re.compile(r"!\[([^\]]*)\]\(([^):]+)\)")
_FILE = re.compile(r"\[([^\]]*)\]\(([^)#:][^):]*)\)")


def results_for_docs(text: str) -> str:
    """Fit the page of results in here: pictures from its folder, and files, which are no pages here, by name."""
    body = text.partition("\n# Results\n")[2]
    parts = _PICTURE.split(body)
    for i in range(0, len(parts), 3):
        parts[i] = _FILE.sub(r"\1 (`results/\2`)", parts[i])
    pictures = zip(parts[1::3], parts[2::3], strict=True)
    shown = [f"![{caption}](../results/{path})" for caption, path in pictures]
    return "".join(part for pair in zip(parts[::3], [*shown, ""], strict=True) for part in pair)


def commands_for_docs() -> str:
    """Return the help of every verb as Markdown, without the head that the page has itself."""
    from boltzkit.cli import app

    text = app.generate_docs()
    return "## boltzkit run" + text.partition("\n## boltzkit run")[2]


def _read(app: Any, docname: str, source: list[str]) -> None:
    if docname == "results" and (_RESULTS / "README.md").is_file():  # source archives come without results
        page = results_for_docs((_RESULTS / "README.md").read_text())
        source[0] = source[0].replace("<!-- results/README.md -->", page)
    if docname == "errors":
        page = catalogue(Path(__file__).parents[1] / "src" / "boltzkit")
        source[0] = source[0].replace("<!-- errors -->", page)
    if docname == "cli":
        source[0] = source[0].replace("<!-- cli -->", commands_for_docs())
    if docname == "tests":
        page = law_catalogue(Path(__file__).parents[1] / "tests")
        source[0] = source[0].replace("<!-- tests -->", page)


def setup(app: Any) -> None:
    app.connect("source-read", _read)
    # Before napoleon (priority 500), which needs to see our sections as they were written.
    app.connect("autodoc-process-docstring", _process, priority=400)
