"""A structure as a drawing: for paper, for small pictures beside its name, and where there is no WebGL."""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from boltzkit.report.molecule.conformers import Atoms
from boltzkit.report.molecule.markup import Markup, element, rounded
from boltzkit.report.molecule.svg import path

__all__ = ["draw_stills"]

_MARGIN = 0.6
_SIZES = {"H": 0.24}
_SIZE, _STICK = 0.38, 0.17
"""Radii of atoms and half width of bonds, in ångström."""
_KNOWN = {"H", "C", "N", "O", "S", "P"}
_CROWDED, _MANY = 40, 150
"""A molecule of more atoms is drawn without hydrogens, one of even more without balls."""
_PIXELS = 20.0
"""Of the drawing, per ångström."""


def draw_stills(conformers: Sequence[Atoms]) -> list[Markup]:
    """Draw structures, each seen along z and as large as it fits, as SVG symbols ``still-0``, ``still-1`` and so on."""
    return [
        element("symbol", *_marks(atoms), id=f"still-{place}", viewBox=_view(atoms))
        for place, atoms in enumerate(conformers)
    ]


def _view(atoms: Atoms) -> str:
    low, high = (end(atoms.positions[:, :2] * [1, -1], axis=0) for end in (np.min, np.max))
    left, top = (low - _MARGIN) * _PIXELS
    width, height = (high - low + 2 * _MARGIN) * _PIXELS
    return " ".join(map(rounded, (left, top, width, height)))


def _marks(atoms: Atoms) -> list[Markup]:
    """Return bonds and atoms, farthest first."""
    place = atoms.positions * np.array([1.0, -1.0, 1.0]) * _PIXELS
    bonds = atoms.bonds()
    if len(atoms.elements) > _MANY:
        return [_skeleton(atoms, place, bonds)]
    crowded = len(atoms.elements) > _CROWDED
    hidden = {index for index, symbol in enumerate(atoms.elements) if crowded and symbol == "H"}
    marks = [mark for bond in bonds if not hidden & set(bond) for mark in _bond(atoms, place, bond)]
    for index, symbol in enumerate(atoms.elements):
        if index in hidden:
            continue
        radius = _SIZES.get(symbol, _SIZE) * _PIXELS
        x, y, z = (float(value) for value in place[index])
        circle = element("circle", cx=x, cy=y, r=radius, class_=f"atom {_kind(symbol)}")
        marks.append((z, circle))
    return [mark for _, mark in sorted(marks, key=lambda pair: pair[0])]


def _bond(atoms: Atoms, place: NDArray[np.float64], bond: tuple[int, int]) -> list[tuple[float, Markup]]:
    """Return both halves of a bond, each as far as its middle, with a rim that sets it off from what lies behind."""
    a, b = (place[index] for index in bond)
    middle = (a + b) / 2
    halves = []
    for end, index in ((a, bond[0]), (b, bond[1])):
        d = path([(float(end[0]), float(end[1])), (float(middle[0]), float(middle[1]))])
        width = 2 * _STICK * _PIXELS
        rim = element("path", d=d, class_="rim", stroke_width=width + 2.4)
        stick = element("path", d=d, class_=f"stick {_kind(atoms.elements[index])}", stroke_width=width)
        # A hair nearer than its own depth tells, so that an atom at its end does not cover the joint's rim alone.
        halves.append((float((end[2] + middle[2]) / 2) - 1e-3, Markup(rim + stick)))
    return halves


def _skeleton(atoms: Atoms, place: NDArray[np.float64], bonds: Sequence[tuple[int, int]]) -> Markup:
    heavy = [bond for bond in bonds if "H" not in (atoms.elements[bond[0]], atoms.elements[bond[1]])]
    lines = (path([(float(place[i, 0]), float(place[i, 1])) for i in bond]) for bond in heavy)
    width = max(1.0, 6.0 / math.sqrt(max(len(heavy), 1) / _MANY))
    return element("path", d="".join(lines), class_="stick C", stroke_width=width)


def _kind(symbol: str) -> str:
    return symbol if symbol in _KNOWN else "other"
