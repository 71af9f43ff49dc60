"""The topology of a sequence such as ``ACE-ALA-NME``, from the residue templates of a force field."""

from dataclasses import dataclass
from typing import Any

from openmm import app

from boltzkit.errors import UserError, did_you_mean
from boltzkit.molecule.parts import tidy

__all__ = ["Chain", "build_chain"]

# Histidine is a family: the neutral form with the hydrogen at Nε stands for it, as Amber's tools have it.
_ALIASES = {"HIS": ("HIE", "HSE"), "NH2": ("NHE",)}


@dataclass(frozen=True)
class Chain:
    """A chain of residues without coordinates.

    Attributes:
        topology: OpenMM Topology of one chain.
        templates: the template of each residue.
        remarks: what was chosen where the sequence left a choice.
    """

    topology: Any
    templates: dict[Any, str]
    remarks: tuple[str, ...]


def build_chain(sequence: str, forcefield: Any) -> Chain:
    """Join the templates of a sequence, first to last, by their external bonds.

    An end that is not a cap takes its terminal form (``ALA`` at the start is Amber's ``NALA``).
    """
    names = _names(sequence)
    chosen = [_template(names, place, forcefield, sequence) for place in range(len(names))]
    topology = app.Topology()
    chain = topology.addChain("A")
    tail = None
    for place, (name, template) in enumerate(zip(names, chosen, strict=True)):
        residue = topology.addResidue(name, chain)
        atoms = [topology.addAtom(atom.name, atom.element, residue) for atom in template.atoms]
        for a, b in template.bonds:
            topology.addBond(atoms[a], atoms[b])
        head, next_tail = _ends(names, place, template, sequence)
        if tail is not None and head is not None:
            topology.addBond(tail, atoms[head])
        tail = None if next_tail is None else atoms[next_tail]
    topology, _ = tidy(topology)
    templates = {
        residue: template.name for residue, template in zip(topology.residues(), chosen, strict=True)
    }
    remarks = tuple(
        f"{name} is built as {template.name}."
        for name, template in zip(names, chosen, strict=True)
        if template.name.endswith(_ALIASES.get(name, ()))
    )
    return Chain(topology, templates, remarks)


def _names(sequence: str) -> list[str]:
    names = [name.strip().upper() for name in sequence.split("-")]
    if not all(names):
        raise UserError(f"A sequence is residue names joined by dashes, like ACE-ALA-NME, not '{sequence}'.")
    return names


def _template(names: list[str], place: int, forcefield: Any, sequence: str) -> Any:
    """Return the template of one residue, in the form that its place in the chain asks for."""
    known = {name.upper(): template for name, template in forcefield._templates.items()}
    first, last = place == 0, place == len(names) - 1
    needed = (not first) + (not last)
    forms = [names[place], *_ALIASES.get(names[place], ())]
    ends = [f"N{form}" for form in forms if first] + [f"C{form}" for form in forms if last]
    found = [known[form] for form in (*forms, *ends) if form in known]
    if not found:
        raise UserError(
            f"{sequence}: the force field has no residue '{names[place]}'."
            + did_you_mean(names[place], known)
        )
    fitting = [template for template in found if len(template.externalBonds) == needed]
    if not fitting:
        raise UserError(
            f"{sequence}: the force field has no form of {names[place]} with the {needed} bonds to other residues "
            f"that place {place + 1} of {len(names)} asks for: cap the ends (ACE-...-NME), and leave disulphides "
            "(CYX) to a structure from a file."
        )
    return fitting[0]


def _ends(names: list[str], place: int, template: Any, sequence: str) -> tuple[int | None, int | None]:
    """Return the atoms that bond to the residue before and to the one after."""
    external = list(template.externalBonds)
    by_name = {template.atoms[index].name: index for index in external}
    head = by_name.get("N") if place > 0 else None
    tail = by_name.get("C") if place < len(names) - 1 else None
    if (place > 0 and head is None) or (place < len(names) - 1 and tail is None):
        raise UserError(
            f"{sequence}: {names[place]} cannot stand at place {place + 1}: only peptides, joined from C to N, are "
            "built from a sequence; load other molecules from a file."
        )
    return head, tail
