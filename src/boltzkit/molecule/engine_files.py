"""Molecules prepared for other engines: Amber prmtop, GROMACS top and CHARMM psf, read by OpenMM."""

import re
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from openmm import app

from boltzkit.errors import UserError, did_you_mean
from boltzkit.molecule.checks import refuse_solvent
from boltzkit.molecule.parts import Parts, constraint_type, existing, in_nm, reading, tidy
from boltzkit.molecule.structure_files import read_structure

__all__ = ["IMPLICIT_SOLVENTS", "read_amber", "read_charmm", "read_gromacs"]

IMPLICIT_SOLVENTS = {
    "HCT": app.HCT,
    "OBC1": app.OBC1,
    "OBC2": app.OBC2,
    "GBn": app.GBn,
    "GBn2": app.GBn2,
}
"""Generalised Born models by name, for files that do not choose one themselves."""


def read_amber(
    topology: str | Path,
    coordinates: str | Path,
    implicit_solvent: str | None = None,
    constraints: Any = None,
) -> Parts:
    """Read an Amber prmtop with inpcrd or rst7 coordinates."""
    path, start = existing(topology), existing(coordinates)
    _refuse_absurd_counts(path)
    with reading(path, "an Amber prmtop"):
        file = app.AmberPrmtopFile(str(path))
    with reading(start, "Amber coordinates"):
        positions = app.AmberInpcrdFile(str(start)).positions
    options = {"implicitSolvent": _solvent(implicit_solvent), "flexibleConstraints": False}
    return _assemble(path, file.topology, positions, file.createSystem, constraints, options)


def read_gromacs(
    topology: str | Path,
    coordinates: str | Path,
    include_folder: str | Path | None = None,
    constraints: Any = None,
) -> Parts:
    """Read a GROMACS top with gro coordinates; included files are looked for in a folder."""
    path, start = existing(topology), existing(coordinates)
    with reading(path, "a GROMACS topology"):
        file = app.GromacsTopFile(str(path), includeDir=str(include_folder) if include_folder else None)
    with reading(start, "GROMACS coordinates"):
        positions = app.GromacsGroFile(str(start)).positions
    return _assemble(path, file.topology, positions, file.createSystem, constraints, {})


def read_charmm(
    topology: str | Path,
    coordinates: str | Path,
    parameters: Iterable[str | Path],
    implicit_solvent: str | None = None,
    constraints: Any = None,
) -> Parts:
    """Read a CHARMM psf with crd or PDB coordinates and parameter files (rtf, prm, str)."""
    path, start = existing(topology), existing(coordinates)
    files = [existing(file) for file in parameters]
    with reading(path, "a CHARMM psf"):
        file = app.CharmmPsfFile(str(path))
    with reading(Path(", ".join(map(str, files))), "CHARMM parameters"):
        known = app.CharmmParameterSet(*map(str, files))
    if start.suffix.lower() in {".crd", ".cor"}:
        with reading(start, "CHARMM coordinates"):
            positions = app.CharmmCrdFile(str(start)).positions
    else:
        positions = read_structure(start)[1]

    def create(**options: Any) -> Any:
        return file.createSystem(known, **options)

    options = {"implicitSolvent": _solvent(implicit_solvent), "flexibleConstraints": False}
    return _assemble(path, file.topology, positions, create, constraints, options)


def _assemble(
    path: Path,
    topology: Any,
    positions: Any,
    create: Callable[..., Any],
    constraints: Any,
    options: dict[str, Any],
) -> Parts:
    refuse_solvent(topology, str(path))
    topology, remarks = tidy(topology)
    kind = constraint_type(constraints)
    with reading(path, "a System"), warnings.catch_warnings(record=True) as doubts:
        warnings.simplefilter("always", UserWarning)
        system = create(nonbondedMethod=app.NoCutoff, constraints=kind, removeCMMotion=False, **options)
    remarks += tuple(f"OpenMM says: {doubt.message}." for doubt in doubts if doubt.category is UserWarning)
    return Parts(path.stem, topology, system, in_nm(positions), remarks)


def _refuse_absurd_counts(path: Path) -> None:
    """Refuse a prmtop that counts more than it can hold, before OpenMM makes tables of that size.

    Everything that is counted takes at least a character of the file, and each pair of atom types does too.
    """
    content = path.read_bytes()
    section = re.search(rb"%FLAG POINTERS.*?%FORMAT[^\n]*\n(.*?)(?:%|\Z)", content, re.DOTALL)
    counts = [int(digits[:20]) for digits in re.findall(rb"\d+", section.group(1))] if section else []
    if max(counts, default=0) > len(content) or (len(counts) > 1 and counts[1] ** 2 > len(content)):
        raise UserError(
            f"{path} is damaged: it counts more atoms, types or terms than a file of its size can hold."
        )


def _solvent(name: str | None) -> Any:
    if name is None:
        return None
    if name not in IMPLICIT_SOLVENTS:
        raise UserError(f"There is no implicit solvent '{name}'." + did_you_mean(name, IMPLICIT_SOLVENTS))
    return IMPLICIT_SOLVENTS[name]
