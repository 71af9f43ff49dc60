"""Force-field files of OpenMM: found by path or by name, checked for scripts, applied to a topology."""

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from openmm import app
from openmm.app import forcefield as openmm_forcefield

from boltzkit.errors import UserError, did_you_mean
from boltzkit.molecule.parts import constraint_type, reading
from boltzkit.molecule.trust import parse_xml, refuse_endless_formulas, refuse_scripts
from boltzkit.molecule.unmatched import why_unmatched

__all__ = ["create_system", "load_forcefield", "template_failure"]


def load_forcefield(files: Iterable[str | Path], trust: bool = False) -> Any:
    """Return OpenMM's ForceField of files given by path or by the name of an installed one.

    A file of the working folder wins over an installed one of the same name, as in OpenMM, and is not trusted.
    """
    names = [files] if isinstance(files, str | Path) else list(files)
    if not names:
        raise UserError("A force field needs at least one file, for example amber99sbildn.xml.")
    paths = [_locate(name) for name in names]
    if not trust:
        for path in paths:
            _refuse_code(path, set())
    with reading(Path(", ".join(str(name) for name in names)), "a force field"):
        return app.ForceField(*map(str, paths))


def create_system(
    forcefield: Any,
    topology: Any,
    source: str,
    constraints: Any = None,
    templates: Mapping[Any, str] | None = None,
) -> Any:
    """Return the System of a topology without cutoff; a residue that has no template is named.

    Args:
        forcefield: OpenMM ForceField.
        topology: OpenMM Topology.
        source: the file or sequence that messages name.
        constraints: None or a name, see `constraint_type`.
        templates: the template of each residue, where it is known already.
    """
    kind = constraint_type(constraints)
    try:
        return forcefield.createSystem(
            topology,
            nonbondedMethod=app.NoCutoff,
            constraints=kind,
            removeCMMotion=False,
            residueTemplates=dict(templates or {}),
        )
    except Exception as error:  # OpenMM raises plain Exceptions too
        raise template_failure(forcefield, topology, source, error) from error


def template_failure(forcefield: Any, topology: Any, source: str, error: Exception) -> UserError:
    """Return the sentence for a failure of OpenMM to apply a force field."""
    residues = list(topology.residues())
    found = re.search(r"No template found for residue (\d+) ", str(error))
    if found is None:
        reason = str(error).strip().rstrip(".")
        return UserError(f"{source}: the force field cannot be applied: {reason}.")
    return UserError(f"{source}: {why_unmatched(forcefield, residues[int(found.group(1))])}")


def _locate(name: str | Path, beside: Path | None = None) -> Path:
    """Find a file as OpenMM does: beside the including file, in the working folder, then installed."""
    folders = [*([beside] if beside else []), Path(), *_installed_folders()]
    for folder in folders:
        if (folder / name).is_file():
            return (folder / name).absolute()
    raise UserError(f"There is no force-field file {name}." + did_you_mean(str(name), _installed_names()))


def _installed_folders() -> list[Path]:
    return [Path(folder) for folder in openmm_forcefield._getDataDirectories()]


def _installed_names() -> Iterator[str]:
    for folder in _installed_folders():
        yield from (path.relative_to(folder).as_posix() for path in folder.rglob("*.xml"))


def _refuse_code(path: Path, seen: set[Path]) -> None:
    """Refuse scripts in a file and in what it includes; installed files are trusted."""
    real = path.resolve()
    if real in seen or any(real.is_relative_to(folder.resolve()) for folder in _installed_folders()):
        return
    seen.add(real)
    root = parse_xml(path)
    refuse_scripts(root, path)
    refuse_endless_formulas(root, path)
    for included in root.findall("Include"):
        _refuse_code(_locate(included.get("file", ""), beside=path.parent), seen)
