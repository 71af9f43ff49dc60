"""Sphinx configuration: Markdown pages, and an API reference from the docstrings."""

import re
from importlib import metadata
from typing import Any

project = "boltzkit"
author = "boltzkit developers"
copyright = "2026, boltzkit developers"
release = version = metadata.version("boltzkit")

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "sphinx.ext.napoleon",
]
exclude_patterns = ["_build"]
templates_path = ["_templates"]
html_theme = "furo"
html_title = "boltzkit"

myst_enable_extensions = ["amsmath", "colon_fence", "dollarmath"]
myst_heading_anchors = 3

default_role = "code"
napoleon_google_docstring = True
napoleon_numpy_docstring = False
autosummary_generate = True
autosummary_ignore_module_all = False
autodoc_inherit_docstrings = False
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_default_options = {"exclude-members": "model_config"}

_CODE = re.compile(r"(``.*?``|`[^`]*`|:math:`[^`]*`)")
_DISPLAY = re.compile(r"^([ \t]*)(.*?)\$\$(.+?)\$\$([.,;]?)", re.DOTALL | re.MULTILINE)
_INLINE = re.compile(r"(?<![\\$])\$([^$\n]+?)\$(?!\$)")


def markdown_to_rest(text: str) -> str:
    """Translate what our docstrings write as Markdown: $...$ and $$...$$, and bars as in |x|."""
    text = _DISPLAY.sub(_display, text)
    return "\n".join(_line(line) for line in text.split("\n"))


def _display(match: re.Match[str]) -> str:
    indent, before, formula, mark = match.groups()
    lines = [f"{indent}   {line.strip()}" for line in formula.strip().split("\n")]
    lines[-1] += mark
    head = [indent + before] if before.strip() else []
    return "\n".join([*head, "", f"{indent}.. math::", "", *lines, ""])


def _line(line: str) -> str:
    if line.lstrip().startswith((">>>", "...")):
        return line
    line = _INLINE.sub(lambda match: rf":math:`{match[1]}`\ ", line)
    # reStructuredText would take |x| for a substitution; inside code and formulas bars are safe.
    parts = _CODE.split(line)
    return "".join(part if part.startswith(("`", ":math:")) else part.replace("|", r"\|") for part in parts)


def _process(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    lines[:] = markdown_to_rest("\n".join(lines)).split("\n")


def setup(app: Any) -> None:
    # Before napoleon (priority 500), which needs to see our sections as they were written.
    app.connect("autodoc-process-docstring", _process, priority=400)
