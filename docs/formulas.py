"""Formulas as MathML, which browsers draw by themselves: pages need no script, and no network to read them."""

import re
from typing import Any

from docutils import nodes
from latex2mathml.converter import convert

__all__ = ["mathml", "setup"]

_FUNCTION = re.compile(r"(<mi>(?:log|exp|sin|cos|det|max|min)</mi>)(?=<m(?:i|sub|sup|subsup|row|frac)>)")
_SPACE = '<mspace width="0.17em"/>'


def mathml(formula: str, *, display: bool = False) -> str:
    r"""Return a formula of LaTeX as MathML.

    Raises:
        ValueError: for a command that is not known, which would be shown as it is written.
    """
    found = convert(formula, display="block" if display else "inline")
    if "\\" in found:
        raise ValueError(f"This formula has a command that cannot be drawn: {formula}")
    return _FUNCTION.sub(rf"\1{_SPACE}", found)


def _inline(writer: Any, node: nodes.Element) -> None:
    writer.body.append(mathml(node.astext()))
    raise nodes.SkipNode


def _block(writer: Any, node: nodes.Element) -> None:
    writer.body.append(f'<div class="formula">{mathml(node.astext(), display=True)}</div>')
    raise nodes.SkipNode


def setup(app: Any) -> dict[str, Any]:
    """Let pages draw their formulas so."""
    app.add_html_math_renderer("mathml", (_inline, None), (_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
