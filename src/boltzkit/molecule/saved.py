"""A molecule as a folder of its own: ``system.xml`` and ``topology.pdb``, whatever files it once came from."""

import io
from pathlib import Path

import openmm
from openmm import app

from boltzkit.errors import UserError
from boltzkit.molecule.molecule import Molecule
from boltzkit.storage import write_bytes

__all__ = ["SYSTEM", "TOPOLOGY", "load_molecule", "pdb_text", "save_molecule"]

SYSTEM, TOPOLOGY = "system.xml", "topology.pdb"


def save_molecule(molecule: Molecule, folder: Path) -> None:
    """Write the System and the reference structure; other files of the folder stay."""
    write_bytes(folder / SYSTEM, openmm.XmlSerializer.serialize(molecule.system).encode())
    write_bytes(folder / TOPOLOGY, pdb_text(molecule, molecule.positions).encode())


def load_molecule(folder: Path, name: str | None = None, *, trust: bool = False) -> Molecule:
    """Read what `save_molecule` wrote.

    Args:
        folder: with the two files.
        name: of the molecule; the folder's by default.
        trust: as for `Molecule.from_system_xml`.
    """
    for file in (SYSTEM, TOPOLOGY):
        if not (folder / file).is_file():
            raise UserError(f"{folder} is no folder of a molecule: it has no {file}.")
    found = Molecule.from_system_xml(folder / SYSTEM, folder / TOPOLOGY, trust=trust)
    return found.named(folder.name if name is None else name)


def pdb_text(molecule: Molecule, positions: object) -> str:
    """Return a structure of the molecule, ``(atoms, 3)`` nm, as a PDB file without a date."""
    text = io.StringIO()
    placed = openmm.unit.Quantity(positions, openmm.unit.nanometer)
    app.PDBFile.writeModel(molecule.topology, placed, text, keepIds=True)
    app.PDBFile.writeFooter(molecule.topology, text)
    return text.getvalue()
