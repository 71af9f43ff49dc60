"""Files that carry code are refused: force-field XML with scripts, System XML with Python or plugin forces.

So are formulas without end, which OpenMM's parser of formulas would follow until memory or stack are used up.

OpenMM runs ``<Script>`` and ``<InitializationScript>`` of a force field as Python, and a serialised PythonForce
holds a pickle. Opening somebody's file must not run their code, unless the user says that it may.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn
from xml.etree import ElementTree

import openmm

from boltzkit.errors import UserError

__all__ = ["CODE_TAGS", "parse_xml", "refuse_endless_formulas", "refuse_foreign_types", "refuse_scripts"]

CODE_TAGS = ("Script", "InitializationScript")
"""Elements of a force-field file that OpenMM executes."""

_LONGEST = 1000
"""Names, numbers and signs that a formula may have with its definitions written out; real force fields have 200."""
_SHORT = 40
"""Characters of a formula that cannot grow that far; most texts of a file are numbers."""
_PARTS = re.compile(r"[A-Za-z_]\w*|\d+|\S")

_MEANING = "let boltzkit prepare --trust read it (trust=True in Python) if you know where it comes from"


class _NoDoctype(ElementTree.TreeBuilder):
    """A tree without document types, whose entities could expand to anything."""

    def doctype(self, name: str, pubid: str | None, system: str | None) -> NoReturn:
        raise UserError("has a DOCTYPE, which no OpenMM file needs: remove it.")


def parse_xml(path: Path) -> ElementTree.Element:
    """Parse a file of XML; document types and damaged files are refused."""
    try:
        return ElementTree.XML(path.read_bytes(), parser=ElementTree.XMLParser(target=_NoDoctype()))
    except UserError as error:
        raise UserError(f"{path} {error}") from error
    except (ElementTree.ParseError, LookupError, ValueError) as error:  # also encodings that nobody knows
        raise UserError(f"{path} is not valid XML: {error}.") from error


def refuse_scripts(root: ElementTree.Element, path: Path) -> None:
    """Refuse a force-field file that carries a script."""
    for element in root.iter():
        tag = element.tag.rsplit("}")[-1]
        if tag in CODE_TAGS:
            raise UserError(f"{path} carries a <{tag}>, which is code that would be run: {_MEANING}.")


def refuse_foreign_types(root: ElementTree.Element, path: Path) -> None:
    """Refuse a System file that names a type which is not plain data of OpenMM itself.

    OpenMM chooses what to build by the attribute ``type``, at any depth, so every one of them is looked at. Numbers are
    kinds of terms within a force: nothing is registered under a number.
    """
    known = set(_plain_types())
    for element in root.iter():
        found = element.get("type")
        if found is not None and found not in known and not (found.isascii() and found.isdigit()):
            raise UserError(
                f"{path} holds a {found}, which can run code or needs a plugin that is not part of OpenMM: "
                f"{_MEANING}."
            )


def refuse_endless_formulas(root: ElementTree.Element, path: Path) -> None:
    """Refuse a file with a formula that is too long, or becomes so when its definitions are written out."""
    remarks = {remark for information in root.iter("Info") for remark in information.iter()}
    for element in root.iter():
        for text in (*element.attrib.values(), element.text or ""):
            if len(text) > _SHORT and element not in remarks and _written_out(text) > _LONGEST:
                raise UserError(
                    f"{path} holds a formula of more than {_LONGEST} parts ('{text[:40]}…'), which OpenMM cannot work "
                    "with: shorten it."
                )


def _written_out(formula: str) -> int:
    """Return how many parts a formula has once its definitions are put in place, each as often as it is used.

    >>> _written_out("a * a; a = b + b; b = r")
    7
    """
    sizes: dict[str, int] = {}
    total = 0
    for clause in reversed(formula.split(";")):
        name, defines, body = clause.partition("=")
        parts = _PARTS.findall(body if defines else clause)
        total = min(_LONGEST + 1, sum(sizes.get(part, 1) for part in parts))
        sizes[name.strip()] = total
    return total


def _plain_types() -> Iterator[str]:
    yield "System"
    for name, kind in vars(openmm).items():
        plain = isinstance(kind, type) and issubclass(kind, openmm.Force | openmm.TabulatedFunction)
        if plain and not name.startswith("Python"):
            yield name
