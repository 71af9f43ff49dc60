"""Tables in notes: rows are written with places for numbers, and the numbers come from files of the folder.

A note holds, in a comment before each table, the table as its author writes it: what stands in braces is a value of a
JSON or CSV file, a path in the note's folder and keys, with a format as Python has it. ``!h`` takes it a hundredfold,
for per cent. A row of a CSV file is found by its number from 0, or by ``column=value``.

    <!-- table
    | | ESS, % |
    |---|---|
    | cytidine | {cytidine/summary.json[ess_raw]!h:.1f} |
    -->
    | | ESS, % |
    |---|---|
    | cytidine | 28.4 |
    <!-- end of table -->
"""

import csv
import re
import string
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from boltzkit.errors import UserError
from boltzkit.storage import read_json

__all__ = ["filled", "without_templates"]

_TABLE = re.compile(r"<!-- table\n(.*?)-->\n(.*?)<!-- end of table -->\n?", re.DOTALL)
_KEY = re.compile(r"\[([^\]]*)\]")


def filled(text: str, folder: Path) -> str:
    """Return a note with every table made anew from the files of its folder."""
    numbers = _Numbers(folder)

    def table(match: re.Match[str]) -> str:
        return f"<!-- table\n{match[1]}-->\n{numbers.format(match[1])}<!-- end of table -->\n"

    return _TABLE.sub(table, text)


def without_templates(text: str) -> str:
    """Return a note as its readers see it."""
    return _TABLE.sub(lambda match: match[2], text)


class _Numbers(string.Formatter):
    """Fills places of a text with values of files."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._read: dict[str, Any] = {}

    def get_field(self, field_name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Any, str]:
        name = field_name.partition("[")[0]
        value = self._content(name)
        for key in _KEY.findall(field_name):
            try:
                value = _part(value, key)
            except (KeyError, IndexError, TypeError, ValueError) as error:
                raise UserError(
                    f"A table in {self.folder / 'README.md'} asks for {field_name}, and there is no '{key}' there."
                ) from error
        return value, name

    def convert_field(self, value: Any, conversion: Any) -> Any:
        return 100 * value if conversion == "h" else super().convert_field(value, conversion)

    def format_field(self, value: Any, format_spec: str) -> str:
        shown = format(value, format_spec)
        return f"−{shown[1:]}" if isinstance(value, int | float) and shown.startswith("-") else shown

    def _content(self, name: str) -> Any:
        if name not in self._read:
            path = self.folder / name
            if not path.is_file():
                raise UserError(
                    f"A table in {self.folder / 'README.md'} asks for {name}, which is not there."
                )
            self._read[name] = _rows(path) if path.suffix == ".csv" else read_json(path)
        return self._read[name]


def _rows(path: Path) -> list[dict[str, Any]]:
    with path.open(newline="") as file:
        return [{key: _number(value) for key, value in row.items()} for row in csv.DictReader(file)]


def _number(text: str) -> Any:
    try:
        return float(text)
    except ValueError:
        return text


def _part(value: Any, key: str) -> Any:
    if not isinstance(value, list):
        return value[key]
    column, equals, wanted = key.partition("=")
    if not equals:
        return value[int(key)]
    (row,) = (row for row in value if row[column] == _number(wanted))
    return row
