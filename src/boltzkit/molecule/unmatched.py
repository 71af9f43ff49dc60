"""Why a residue matches no template of a force field, in one sentence."""

import difflib
from collections import Counter
from collections.abc import Iterable
from typing import Any

__all__ = ["residue_label", "why_unmatched"]

_HYDROGEN = "H"


def residue_label(residue: Any) -> str:
    """Return how messages call a residue: name, number and chain, then its place in the file."""
    total = sum(1 for _ in residue.chain.topology.residues())
    chain = f" of chain {residue.chain.id}" if residue.chain.id.strip() else ""
    return f"{residue.name} {residue.id}{chain} (residue {residue.index + 1} of {total})"


def why_unmatched(forcefield: Any, residue: Any) -> str:
    """Return what is wrong with a residue and what to do, by comparing its elements with every template's."""
    label = residue_label(residue)
    templates = {name: _elements(template.atoms) for name, template in forcefield._templates.items()}
    if not templates:
        return f"{label} has no template: the force-field files hold none at all."
    own = _elements(residue.atoms())
    nearest = sorted(templates, key=lambda name: _distance(own, templates[name], residue.name, name))
    best = nearest[0]
    missing, extra = templates[best] - own, own - templates[best]
    if set(missing) == {_HYDROGEN} and not extra:
        hydrogens = "1 hydrogen" if missing[_HYDROGEN] == 1 else f"{missing[_HYDROGEN]} hydrogens"
        return (
            f"{label} lacks {hydrogens} of the template {best}: boltzkit prepare FILE "
            "--add-hydrogens --out FOLDER adds them (add_hydrogens=True in Python)."
        )
    if not missing and not extra:
        return (
            f"{label} has the atoms of the template {best} but not its bonds: cap or complete the ends of the "
            "chain (ACE, NME or terminal atoms), or add the missing CONECT records."
        )
    differences = [f"lacks {_count(missing)}"] if missing else []
    differences += [f"has {_count(extra)} too many"] if extra else []
    return (
        f"{label} has no template in the force field; the nearest are {', '.join(nearest[:3])}, and against "
        f"{best} it {' and '.join(differences)}: correct the residue or add a file that knows it."
    )


def _distance(own: Counter[str], template: Counter[str], name: str, other: str) -> tuple[float, ...]:
    """Rank templates: those of the residue's own name, then by heavy atoms, all atoms, likeness of names."""
    # Amber's terminal forms carry an N or C before the name.
    stranger = name not in (other, other.removeprefix("N"), other.removeprefix("C"))
    different = (own - template) + (template - own)
    heavy = different.total() - different[_HYDROGEN]
    likeness = difflib.SequenceMatcher(None, name, other, autojunk=False).ratio()
    return stranger, heavy, different.total(), -likeness


def _count(elements: Counter[str]) -> str:
    return ", ".join(f"{number} {element}" for element, number in sorted(elements.items()))


def _elements(atoms: Iterable[Any]) -> Counter[str]:
    return Counter(atom.element.symbol if atom.element else "extra site" for atom in atoms)
