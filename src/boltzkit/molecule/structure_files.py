"""PDB and mmCIF structures with OpenMM force-field files or with a serialised System."""

import random
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import openmm
from openmm import app
from torch import Tensor

from boltzkit.errors import UserError
from boltzkit.molecule.checks import refuse_solvent
from boltzkit.molecule.forcefield_files import create_system, load_forcefield, template_failure
from boltzkit.molecule.parts import Parts, existing, in_nm, reading, tidy
from boltzkit.molecule.trust import parse_xml, refuse_endless_formulas, refuse_foreign_types

__all__ = ["read_pdb", "read_structure", "read_system_xml"]

_MMCIF = {".cif", ".mmcif", ".pdbx"}
_ATOM_RECORDS = (b"ATOM", b"HETATM")


def read_structure(path: str | Path) -> tuple[Any, Tensor, tuple[str, ...]]:
    """Return topology, coordinates and remarks of a PDB file, or of mmCIF by the ending of its name."""
    path = existing(path)
    mmcif = path.suffix.lower() in _MMCIF
    if not mmcif and not any(line.startswith(_ATOM_RECORDS) for line in path.read_bytes().splitlines()):
        raise UserError(f"{path} is no PDB file with atoms: it has no ATOM or HETATM records.")
    with reading(path, "mmCIF" if mmcif else "PDB"), path.open() as text:
        file = app.PDBxFile(text) if mmcif else app.PDBFile(text)
    topology, remarks = tidy(file.topology)
    models = file.getNumFrames()
    if models > 1:
        remarks += (f"The first of {models} models is used.",)
    return topology, in_nm(file.getPositions()), remarks


def read_pdb(
    path: str | Path,
    forcefield: Iterable[str | Path],
    constraints: Any = None,
    add_hydrogens: bool = False,
    trust: bool = False,
) -> Parts:
    """Read a structure and apply force-field files to it."""
    topology, positions, remarks = read_structure(path)
    refuse_solvent(topology, str(path))
    rules = load_forcefield(forcefield, trust)
    if add_hydrogens:
        before = topology.getNumAtoms()
        topology, positions = _hydrogenated(topology, positions, rules, str(path))
        remarks += (f"{topology.getNumAtoms() - before} hydrogens were added.",)
    system = create_system(rules, topology, str(path), constraints)
    return Parts(Path(path).stem, topology, system, positions, remarks)


def read_system_xml(path: str | Path, structure: str | Path, trust: bool = False) -> Parts:
    """Read a serialised OpenMM System and the structure that it belongs to."""
    topology, positions, remarks = read_structure(structure)
    path = existing(path)
    root = parse_xml(path)
    if root.get("type") != "System":
        raise UserError(f"{path} holds a {root.get('type', root.tag)}, not an OpenMM System.")
    if not trust:
        refuse_foreign_types(root, path)
    refuse_endless_formulas(root, path)
    with reading(path, "an OpenMM System"):
        # OpenMM's own parser ends comments elsewhere than the standard says. It gets the tree that was checked.
        system = openmm.XmlSerializer.deserialize(ElementTree.tostring(root, encoding="unicode"))
    return Parts(Path(path).stem, topology, system, positions, remarks)


def _hydrogenated(topology: Any, positions: Tensor, rules: Any, source: str) -> tuple[Any, Tensor]:
    modeller = app.Modeller(topology, positions.numpy() * openmm.unit.nanometer)
    state = random.getstate()
    try:
        random.seed(0)  # OpenMM starts new hydrogens at random places, drawn from Python's global generator
        modeller.addHydrogens(rules, platform=openmm.Platform.getPlatformByName("Reference"))
    except Exception as error:
        raise template_failure(rules, topology, source, error) from error
    finally:
        random.setstate(state)
    return tidy(modeller.topology)[0], in_nm(modeller.positions)
