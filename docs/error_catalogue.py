"""The catalogue of errors, read from the source: every sentence that boltzkit can refuse something with."""

import ast
from collections.abc import Iterator
from pathlib import Path

__all__ = ["catalogue", "sentences"]

_RAISED = ("UserError", "TrainingFailed")


def catalogue(package: Path) -> str:
    """Return the sentences as Markdown, one section per room of the package."""
    parts = []
    for room in sorted(path for path in package.iterdir() if (path / "__init__.py").is_file()):
        found = sorted({text for file in sorted(room.rglob("*.py")) for text in sentences(file)})
        if found:
            about = ast.get_docstring(ast.parse((room / "__init__.py").read_text())) or ""
            parts += [f"## {room.name}", "", about.partition("\n\n")[0], ""]
            parts += [f"- {text}" for text in found] + [""]
    top = sorted({text for file in sorted(package.glob("*.py")) for text in sentences(file)})
    parts += ["## Files and settings in general", "", *(f"- {text}" for text in top), ""]
    return "\n".join(parts)


def sentences(file: Path) -> Iterator[str]:
    """Yield the message of every error for people that a file raises, its variable parts as *names*."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call) and node.exc.args:
            raised = node.exc.func
            if isinstance(raised, ast.Name) and raised.id in _RAISED:
                text = " ".join(_text(node.exc.args[0]).split())
                if any(character.isalpha() for character in text.replace("*…*", "")):
                    yield text


def _text(node: ast.expr) -> str:
    if isinstance(node, ast.Constant):
        return str(node.value).replace("*", r"\*").replace("<", r"\<").replace("_", r"\_").replace("`", r"\`")
    if isinstance(node, ast.JoinedStr):
        return "".join(_text(part) for part in node.values)
    if isinstance(node, ast.FormattedValue):
        return f"*{_name(node.value)}*"
    if isinstance(node, ast.BinOp):
        return _text(node.left) + _text(node.right)
    return "*…*" if not isinstance(node, ast.IfExp) else _text(node.body)


def _name(node: ast.expr) -> str:
    """Return a word for what stands in the place of a variable part."""
    if isinstance(node, ast.Name):
        return node.id.strip("_").replace("_", " ")
    if isinstance(node, ast.Attribute):
        return node.attr.strip("_").replace("_", " ")
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "len":
        return "number"
    return "…"
