"""What a notebook shows of a value: small tables without style, every word escaped."""

import html
from collections.abc import Iterable, Mapping, Sequence

__all__ = ["as_list", "as_rows", "as_table"]


def as_rows(title: str, rows: Mapping[str, str]) -> str:
    """Return a title over named values, one a line.

    >>> as_rows("water", {"atoms": "3"})
    '<p><b>water</b></p><table><tr><th>atoms</th><td>3</td></tr></table>'
    """
    body = "".join(f"<tr><th>{_text(name)}</th><td>{_text(value)}</td></tr>" for name, value in rows.items())
    return f"<p><b>{_text(title)}</b></p><table>{body}</table>"


def as_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return rows of equal length under their names."""
    names = "".join(f"<th>{_text(name)}</th>" for name in head)
    lines = "".join("<tr>" + "".join(f"<td>{_text(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><tr>{names}</tr>{lines}</table>"


def as_list(sentences: Iterable[str]) -> str:
    """Return sentences as a list."""
    return "<ul>" + "".join(f"<li>{_text(sentence)}</li>" for sentence in sentences) + "</ul>"


def _text(words: str) -> str:
    return html.escape(words)
