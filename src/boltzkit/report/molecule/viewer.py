"""The molecule in three dimensions, with a button for each representative structure."""

from collections.abc import Sequence

from boltzkit.report.molecule.conformers import Atoms, read_atoms, superposed
from boltzkit.report.molecule.content import Structure
from boltzkit.report.molecule.markup import Markup, element, json_block, notation
from boltzkit.report.molecule.still import draw_stills

__all__ = ["molecule_section"]

_HELP = "Drag to turn, pinch or scroll to zoom, point at an atom for its name. "
_KEYS = "With the keyboard: arrows turn, + and − zoom, 0 resets the view."
_NAMES = {"H": "hydrogen", "C": "carbon", "N": "nitrogen", "O": "oxygen", "S": "sulfur", "P": "phosphorus"}


def molecule_section(structures: Sequence[Structure], title: str) -> tuple[Markup, Markup]:
    """Return the section's content and the data that its script reads."""
    placed = superposed(structures)
    conformers = [read_atoms(structure.pdb) for structure in placed]
    symbols = element("svg", *draw_stills(conformers), class_="symbols", aria_hidden="true")
    stage = element("div", _scene(placed[0], conformers, title), _gallery(placed), class_="stage")
    data = [{"label": s.label, "note": s.note, "pdb": s.pdb} for s in placed]
    return Markup(symbols + stage), json_block("structures", data)


def _scene(first: Structure, conformers: Sequence[Atoms], title: str) -> Markup:
    view = element(
        "div",
        _still(0, class_="still"),
        element("p", "Tap to turn", class_="hint", aria_hidden="true"),
        element("p", id="atom-name", aria_hidden="true", hidden=True),
        id="view",
        tabindex="0",
        role="application",
        aria_label=f"{title} in three dimensions, {first.label}",
        aria_describedby="view-help",
    )
    tools = element(
        "div",
        _tool("Balls and sticks", "balls", pressed=True),
        _tool("Spheres", "spheres", pressed=False),
        _tool("Hydrogens", "hydrogens", pressed=True),
        _tool("Reset view", "reset"),
        class_="tools",
        role="group",
        aria_label="How the molecule is shown",
    )
    without = element(
        "p",
        "This browser shows no WebGL, so the molecule is a still drawing here; the buttons switch it.",
        id="no-webgl",
        hidden=True,
    )
    status = element("p", class_="unseen", id="view-status", aria_live="polite")
    foot = element(
        "div",
        _legend(conformers),
        element("p", _HELP, element("span", _KEYS, class_="keys"), id="view-help"),
        class_="under-view",
    )
    return element("div", view, tools, without, status, foot, class_="scene")


def _still(place: int, **attributes: str) -> Markup:
    use = element("use", href=f"#still-{place}", width="100%", height="100%")
    return element("svg", use, aria_hidden="true", **attributes)


def _tool(text: str, action: str, pressed: bool | None = None) -> Markup:
    state = None if pressed is None else str(pressed).lower()
    return element("button", text, type="button", data_tool=action, aria_pressed=state)


def _legend(conformers: Sequence[Atoms]) -> Markup:
    """Return the colours of the elements that occur, in the order chemists name them."""
    found = {symbol for atoms in conformers for symbol in atoms.elements}
    dots = [
        element(
            "li",
            element(
                "svg",
                element("circle", cx="50%", cy="50%", r=5.0, class_=f"atom {symbol}"),
                aria_hidden="true",
            ),
            name,
        )
        for symbol, name in _NAMES.items()
        if symbol in found
    ]
    return element("ul", *dots, class_="elements", aria_label="Colours of the elements")


def _gallery(structures: Sequence[Structure]) -> Markup:
    buttons = [
        element(
            "button",
            _still(place, class_="thumbnail"),
            element(
                "span",
                element("b", notation(structure.label)),
                element("span", notation(structure.note), class_="note"),
                class_="words",
            ),
            type="button",
            data_structure=str(place),
            aria_pressed=str(place == 0).lower(),
        )
        for place, structure in enumerate(structures)
    ]
    return element("div", *buttons, class_="gallery", role="group", aria_label="Representative structures")
