"""The sections of the page, each a piece of HTML; what has no content gives none."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from boltzkit.ensemble import Level
from boltzkit.report.molecule.content import MoleculeReport, Number, Reproduction
from boltzkit.report.molecule.glossary import glossary, term_of
from boltzkit.report.molecule.heat_map import draw_surface
from boltzkit.report.molecule.interval_table import draw_table
from boltzkit.report.molecule.markup import Markup, element, notation
from boltzkit.report.molecule.plots import CEILING, draw_curve, draw_histogram, draw_profile, series_class

__all__ = ["Section", "headline", "sections", "verdict"]

_VERDICTS: dict[Level, tuple[str, str, str]] = {
    "trust": ("good", "These numbers can be trusted", "M7 12.5l3.4 3.4L17.2 9"),
    "with care": ("care", "Use these numbers with care", "M12 7v6.2M12 16.6v.2"),
    "do not trust": ("bad", "Do not trust these numbers", "M8.2 8.2l7.6 7.6M15.8 8.2l-7.6 7.6"),
}
"""Style, sentence and the sign drawn beside it."""
_SHAPES = {
    "good": "M12 1.5a10.5 10.5 0 1 0 0 21a10.5 10.5 0 1 0 0-21z",
    "care": "M10.3 2.6L.9 19.3a2 2 0 0 0 1.7 3h18.8a2 2 0 0 0 1.7-3L13.7 2.6a2 2 0 0 0-3.4 0z",
    "bad": "M7.6 1.5h8.8l6.1 6.1v8.8l-6.1 6.1H7.6l-6.1-6.1V7.6z",
}
"""Disc, triangle and octagon: whoever sees no colour sees the shape."""


@dataclass(frozen=True)
class Section:
    """A part of the page that the contents at its top point to."""

    key: str
    title: str
    content: Markup
    short: str = ""

    def drawn(self) -> Markup:
        """Return it with its heading."""
        heading = element("h2", self.title, id=f"{self.key}-title")
        return element("section", heading, self.content, id=self.key, aria_labelledby=f"{self.key}-title")


def verdict(level: Level, reasons: Sequence[str]) -> Markup:
    """Return the verdict in words, with a sign and a colour that say the same."""
    style, sentence, sign = _VERDICTS[level]
    picture = element(
        "svg",
        element("path", d=_SHAPES[style], class_="shape"),
        element("path", d=sign, class_="sign"),
        viewBox="0 0 24 24",
        aria_hidden="true",
    )
    words = element(
        "div",
        element("p", f"Verdict: {level}", class_="level"),
        element("h2", sentence, id="verdict-title"),
        _listed(reasons),
    )
    return element("section", picture, words, class_=f"verdict {style}", aria_labelledby="verdict-title")


def headline(numbers: Sequence[Number]) -> Markup:
    """Return the headline numbers as cards, labels linked to their meaning."""
    if not numbers:
        return Markup("")
    cards = [
        element(
            "div",
            element("dt", _explained(number.label)),
            element("dd", notation(number.value), class_="value"),
            element("dd", notation(number.note), class_="note") if number.note else "",
        )
        for number in numbers
    ]
    title = element("h2", "Numbers at a glance", class_="unseen", id="headline-title")
    return element("section", title, element("dl", *cards, class_="cards"), aria_labelledby="headline-title")


def sections(report: MoleculeReport) -> list[Section]:
    """Return the sections below the molecule, in order, without those that have no content."""
    tables = [draw_table(table, f"table-{place}") for place, table in enumerate(report.tables)]
    landscape = [
        _figure(s.title, draw_surface(s), f"Empty: no samples, or above {CEILING:.0f} k_BT.")
        for s in report.surfaces
    ]
    landscape += [
        _figure(p.title, draw_profile(p, tall=bool(report.surfaces)), _profile_caption(p.raw is not None))
        for p in report.profiles
    ]
    weights = [_figure(h.title, draw_histogram(h), legend=h.densities) for h in report.histograms]
    training = [_figure(c.title, draw_curve(c), legend=c.series) for c in report.curves]
    found = [
        Section(
            "energies",
            "Populations and free energies",
            element("div", *tables, class_="tables"),
            "Free energies",
        ),
        Section("landscape", "Free-energy landscape", _figures(landscape), "Landscape"),
        Section("weights", "Energies and weights", _figures(weights), "Weights"),
        Section("training", "Training", _figures(training)),
        Section("remarks", "Remarks", _listed(report.remarks)),
    ]
    filled = (tables, landscape, weights, training, report.remarks)
    kept = [section for section, parts in zip(found, filled, strict=True) if parts]
    return [
        *kept,
        Section("reproduce", "How to reproduce", _reproduction(report.reproduction), "Reproduce"),
        Section("meaning", "What each number means", glossary(), "Glossary"),
    ]


def _explained(label: str) -> Markup:
    address = term_of(label)
    return notation(label) if address is None else element("a", notation(label), href=address)


def _listed(sentences: Sequence[str]) -> Markup:
    if len(sentences) == 1:
        return element("p", notation(sentences[0]), class_="sentences")
    return element("ul", *(element("li", notation(sentence)) for sentence in sentences), class_="sentences")


def _profile_caption(with_raw: bool) -> str:
    return "Shaded: 95 % interval." + (" Dashed: before reweighting." if with_raw else "")


def _figures(figures: Sequence[Markup]) -> Markup:
    return element("div", *figures, class_="figures")


def _figure(
    title: str, drawing: Markup, caption: str = "", legend: Mapping[str, object] | None = None
) -> Markup:
    """Return a drawing under its title; its caption makes room for what it tells when one points at it."""
    entries = [_swatch(series_class(place, name), name) for place, name in enumerate(legend or {})]
    # One series needs no legend, but every figure has the same parts, so that those side by side line up.
    key = element("div", element("ul", *entries, class_="legend") if len(entries) > 1 else "")
    foot = element("p", notation(caption), class_="caption")
    return element(
        "figure", element("figcaption", element("h3", notation(title))), key, drawing, foot, class_="panel"
    )


def _swatch(style: str, name: str) -> Markup:
    line = element("line", x1=1.0, x2=21.0, y1=6.0, y2=6.0, class_=f"line {style}")
    return element("li", element("svg", line, viewBox="0 0 22 12", aria_hidden="true"), notation(name))


def _reproduction(reproduction: Reproduction) -> Markup:
    commands = element(
        "div",
        element("h3", "Commands"),
        element(
            "pre",
            element("code", "\n".join(reproduction.commands)),
            id="commands",
            tabindex="0",
            aria_label="Commands",
        ),
        element("button", "Copy", type="button", data_copy="commands", hidden=True),
        class_="panel copyable",
    )
    rows = [
        element("div", element("dt", name), element("dd", version))
        for name, version in reproduction.versions.items()
    ]
    versions = element(
        "div", element("h3", "Versions"), element("dl", *rows, class_="versions"), class_="panel"
    )
    config = element(
        "details",
        element("summary", "Complete configuration (JSON)"),
        element(
            "div",
            element(
                "pre",
                element("code", reproduction.config),
                id="config",
                tabindex="0",
                aria_label="Configuration",
            ),
            element("button", "Copy", type="button", data_copy="config", hidden=True),
            class_="copyable",
        ),
        class_="panel",
    )
    parts = (
        (commands, reproduction.commands),
        (versions, reproduction.versions),
        (config, reproduction.config.strip()),
    )
    return element("div", *(part for part, content in parts if content), class_="reproduction")
