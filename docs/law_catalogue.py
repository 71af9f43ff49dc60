"""The catalogue of what is tested, read from the tests: what each file shows, and by which tests."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Shown", "law_catalogue", "shown"]


@dataclass(frozen=True)
class Shown:
    """What one file of tests shows.

    Attributes:
        file: its path from the folder of tests.
        sentence: what holds if it passes.
        tests: the names of its tests, in words.
    """

    file: Path
    sentence: str
    tests: tuple[str, ...]


def shown(tests: Path) -> Iterator[Shown]:
    """Yield what every file of tests shows, in the order of their paths."""
    for path in sorted(tests.rglob("test_*.py")):
        tree = ast.parse(path.read_text())
        sentence = (ast.get_docstring(tree) or "").partition("\n\n")[0].replace("\n", " ")
        names = [node.name for node in tree.body if isinstance(node, ast.FunctionDef)]
        words = tuple(
            name.removeprefix("test_").replace("_", " ") for name in names if name.startswith("test_")
        )
        yield Shown(path.relative_to(tests), sentence, words)


def law_catalogue(tests: Path) -> str:
    """Return it as Markdown, one section per room of the package."""
    rooms: dict[str, list[Shown]] = {}
    for found in shown(tests):
        room = found.file.parts[0] if len(found.file.parts) > 1 else "everything at once"
        rooms.setdefault(room, []).append(found)
    parts = []
    for room, files in sorted(rooms.items()):
        parts += [f"## {room}", ""]
        for found in files:
            parts += [
                f"**{found.sentence}** `tests/{found.file}`",
                "",
                *(f"- {test}" for test in found.tests),
                "",
            ]
    return "\n".join(parts)
