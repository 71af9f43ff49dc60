"""HTML and SVG that cannot be broken by what is written into them: text is escaped unless it is markup."""

import html
import json
import re
from typing import Any

__all__ = ["Markup", "element", "json_block", "notation", "plain_notation", "rounded"]

_VOID = {"input", "link", "meta"}
_KBT = re.compile(r"k_?B ?T\b")
_BRACKETS = re.compile(r"\[[^\[\]]{1,40}\]")


class Markup(str):
    """Text that is HTML already and is not escaped again."""

    __slots__ = ()


def element(name: str, /, *children: str, **attributes: str | float | bool | None) -> Markup:
    """Return an element; plain strings are escaped, attributes of None or False left out.

    An underscore in an attribute's name stands for a dash, one at its end for nothing.

    >>> element("p", "1 < 2 ", element("b", "a"), class_="x", data_note='"')
    '<p class="x" data-note="&quot;">1 &lt; 2 <b>a</b></p>'
    """
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{_value(value)}"'
        for key, value in attributes.items()
        if value is not None and value is not False
    )
    if name in _VOID:
        return Markup(f"<{name}{written}>")
    return Markup(f"<{name}{written}>{''.join(map(_child, children))}</{name}>")


def _child(child: str) -> str:
    return child if isinstance(child, Markup) else html.escape(child, quote=False)


def _value(value: str | float) -> str:
    if value is True:
        return ""
    return html.escape(value) if isinstance(value, str) else rounded(value)


def rounded(value: float) -> str:
    """Return a coordinate with at most two decimals.

    >>> rounded(1.5), rounded(-0.001), rounded(120.0)
    ('1.5', '0', '120')
    """
    text = f"{value:.2f}".rstrip("0").rstrip(".")
    return "0" if text == "-0" else text


def notation(text: str) -> Markup:
    """Escape a text, set ``k_BT`` as one writes it by hand, and keep intervals in brackets on one line.

    >>> notation("2 k_BT <")
    '2 <span class="one">k<sub>B</sub>T</span> &lt;'
    """
    escaped = html.escape(text, quote=False)
    together = _BRACKETS.sub(r'<span class="one">\g<0></span>', escaped)
    return Markup(_KBT.sub('<span class="one">k<sub>B</sub>T</span>', together))


def plain_notation(text: str) -> Markup:
    """Do the same inside SVG text, which knows no ``sub``."""
    escaped = html.escape(text, quote=False)
    lowered = 'k<tspan dy=".3em" font-size=".75em">B</tspan><tspan dy="-.225em">T</tspan>'
    return Markup(_KBT.sub(lowered, escaped))


def json_block(identifier: str, content: Any) -> Markup:
    """Return data for a script; no text in it can end the block or start another."""
    text = json.dumps(content, allow_nan=False, separators=(",", ":"))
    for sign in "<>&":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return Markup(f'<script type="application/json" id="{html.escape(identifier)}">{text}</script>')
