"""The page of a molecule: one HTML file that holds all it needs and asks the network for nothing."""

import base64
import hashlib
from importlib import resources
from pathlib import Path

from boltzkit.report.molecule.content import MoleculeReport
from boltzkit.report.molecule.markup import Markup, element, notation
from boltzkit.report.molecule.sections import Section, headline, sections, verdict
from boltzkit.report.molecule.viewer import molecule_section
from boltzkit.storage import write_bytes

__all__ = ["molecule_page", "write_molecule_report"]

_ICON = (
    "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'%3E%3Cpath d='M1 3c2 0 2 9 4 9"
    "s2-5 3.5-5S10 10 11.500 10 13 6 15 6' fill='none' stroke='%232a63b8' stroke-width='2'/%3E%3C/svg%3E"
)
"""Two basins and the barrier between them."""


def write_molecule_report(report: MoleculeReport, path: Path) -> None:
    """Write the page; a reader of the file sees the old one or the new one, never a part."""
    write_bytes(path, molecule_page(report).encode())


def molecule_page(report: MoleculeReport) -> str:
    """Return the page as text."""
    parts = sections(report)
    scripts = [_asset("page.js")]
    data = Markup("")
    if report.structures:
        content, data = molecule_section(report.structures, report.title)
        parts.insert(0, Section("molecule", "The molecule", content, "Molecule"))
        scripts.insert(0, f"/*\n{_asset('3Dmol-LICENSE.txt')}*/\n{_asset('3Dmol-min.js')}")
    style = _asset("page.css")
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=_policy(style, scripts)),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("title", f"{report.title} · boltzkit"),
        element("link", rel="icon", href=_ICON),
        element("style", Markup(style)),
    )
    body = element(
        "body",
        element("a", "Skip to the content", href="#content", class_="skip"),
        _contents(parts),
        _main(report, parts),
        _foot(bool(report.structures)),
        data,
        *(element("script", Markup(script)) for script in scripts),
    )
    return f"<!doctype html>\n{element('html', head, body, lang='en')}\n"


def _main(report: MoleculeReport, parts: list[Section]) -> Markup:
    title = element(
        "header",
        element("p", "Molecule report", class_="kind"),
        element("h1", notation(report.title)),
        element("p", notation(report.subtitle), class_="subtitle") if report.subtitle else "",
    )
    first = (title, verdict(report.verdict, report.reasons), headline(report.headline))
    return element("main", *first, *(part.drawn() for part in parts), id="content")


def _contents(parts: list[Section]) -> Markup:
    links = [element("li", element("a", part.short or part.title, href=f"#{part.key}")) for part in parts]
    return element("nav", element("b", "boltzkit"), element("ul", *links), aria_label="Sections")


def _foot(with_viewer: bool) -> Markup:
    words = "Made by boltzkit. This page is one file and loads nothing from the network."
    viewer = (
        " The 3D view is 3Dmol.js 2.5.5 (University of Pittsburgh and contributors, BSD 3-clause licence)."
    )
    return element("footer", element("p", words + (viewer if with_viewer else "")))


def _asset(name: str) -> str:
    return (resources.files("boltzkit.report.molecule") / "assets" / name).read_text(encoding="utf-8")


def _policy(style: str, scripts: list[str]) -> str:
    """Return what the browser may do: run exactly these scripts, use this style, show pictures inside the page."""
    allowed = " ".join(map(_digest, scripts))
    return (
        f"default-src 'none'; script-src {allowed}; style-src {_digest(style)}; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


def _digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
