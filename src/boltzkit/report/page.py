"""One self-contained HTML page: text, tables and pictures without a file beside it."""

import base64
import html
import io
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from matplotlib.figure import Figure

from boltzkit.storage import write_bytes

__all__ = ["Page", "png"]

_STYLE = """
body { font: 16px/1.55 system-ui, sans-serif; color: #1c2430; background: #fff; max-width: 76rem;
       margin: 2.5rem auto; padding: 0 1.2rem; }
h1 { font-size: 1.8rem; margin-bottom: .2rem; } h2 { font-size: 1.25rem; margin-top: 2.2rem; }
table { border-collapse: collapse; margin: 1rem 0; font-size: .92rem; font-variant-numeric: tabular-nums;
        display: block; overflow-x: auto; }
th, td { padding: .35rem .6rem; text-align: left; white-space: nowrap; border-bottom: 1px solid #e3e7ee; }
th { border-bottom: 2px solid #98a4b8; } tr.rule td { border-top: 2px solid #c9d0dc; }
img { max-width: 100%; height: auto; } .note { color: #5a6675; }
@media (prefers-color-scheme: dark) {
  body { background: #14181f; color: #dfe5ee; } th, td { border-color: #2c3542; }
  img { background: #fff; border-radius: 6px; } .note { color: #93a0b3; } }
"""


def png(figure: Figure) -> bytes:
    """Render a figure; the size of a pixel does not depend on the screen."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=150, bbox_inches="tight")
    return buffer.getvalue()


@dataclass
class Page:
    """A page that grows from top to bottom."""

    title: str
    parts: list[str] = field(default_factory=list)

    def heading(self, text: str) -> None:
        """Start a section."""
        self.parts.append(f"<h2>{html.escape(text)}</h2>")

    def text(self, text: str, note: bool = False) -> None:
        """Add a paragraph; a note is set back."""
        self.parts.append(
            f'<p class="note">{html.escape(text)}</p>' if note else f"<p>{html.escape(text)}</p>"
        )

    def table(self, titles: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """Add a table; ``**bold**`` cells are set bold, a first cell that is not empty starts a block."""
        head = "".join(f"<th>{html.escape(title)}</th>" for title in titles)
        body = "".join(
            f'<tr class="rule">{_cells(row)}</tr>' if row[0] else f"<tr>{_cells(row)}</tr>" for row in rows
        )
        self.parts.append(f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>")

    def picture(self, content: bytes, caption: str) -> None:
        """Embed a PNG with its caption."""
        data = base64.b64encode(content).decode()
        alternative = html.escape(caption, quote=True)
        self.parts.append(
            f'<figure><img alt="{alternative}" src="data:image/png;base64,{data}">'
            f'<figcaption class="note">{html.escape(caption)}</figcaption></figure>'
        )

    def write(self, path: Path) -> None:
        """Write the page."""
        title = html.escape(self.title)
        document = (
            f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
            '<meta name="viewport" content="width=device-width, initial-scale=1">'
            f"<style>{_STYLE}</style></head><body><h1>{title}</h1>{''.join(self.parts)}</body></html>\n"
        )
        write_bytes(path, document.encode())


def _cells(row: Sequence[str]) -> str:
    return "".join(f"<td>{_emphasise(html.escape(cell))}</td>" for cell in row)


def _emphasise(text: str) -> str:
    before, mark, rest = text.partition("**")
    inside, closing, after = rest.partition("**")
    return f"{before}<b>{inside}</b>{after}" if mark and closing else text
