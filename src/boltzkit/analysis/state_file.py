"""States as a person writes them: a TOML file, checked line by line.

Angles are in degrees, lengths in nm. A table is a state, and all of its conditions must hold::

    [helix]
    "phi ALA2" = [-120, -30]      # from -120° to -30°
    "psi ALA2" = [-90, 30]

    [extended]
    "psi ALA2" = [90, -150]       # through 180°
    end_to_end = { above = 0.7 }

    [folded]
    rmsd = { to = "folded.pdb", below = 0.15 }   # heavy atoms; atoms = "all", "CA" or "backbone" for others

    [second]
    cluster = { analysis = "analysis.json", number = 2 }
"""

import math
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from boltzkit.analysis.clusters import Partition
from boltzkit.analysis.observables import Observable, observables_of
from boltzkit.analysis.reference import chosen_atoms, read_reference
from boltzkit.analysis.shape import rmsd
from boltzkit.analysis.states import Mask, State, all_of, within
from boltzkit.analysis.torsion_names import torsion_rows, torsions_of
from boltzkit.errors import UserError, did_you_mean
from boltzkit.molecule import Molecule
from boltzkit.storage import read_json

__all__ = ["find_observable", "read_states"]

_GREEK = {"φ": "phi", "ψ": "psi", "ω": "omega", "χ": "chi"}
_FAR = 1e9
"""Beyond every length, area and coupling: an open end."""
_LARGEST = 1e300
"""Beyond which whole numbers are no longer ones of double precision."""
_QUOTED = 200
"""Characters of a value that a message quotes."""


def read_states(path: str | Path, molecule: Molecule) -> list[State]:
    """Read the states of a TOML file; whatever is wrong becomes one sentence.

    Args:
        path: the file; structures that it names are looked for beside it.
        molecule: whose states they are.
    """
    path = Path(path)
    try:
        content = tomllib.loads(path.read_text())
    except FileNotFoundError as error:
        raise UserError(f"There is no file {path}.") from error
    except OSError as error:
        raise UserError(f"{path} cannot be read ({error.strerror}).") from error
    except (ValueError, RecursionError) as error:  # also numbers of too many digits, and too many brackets
        raise UserError(f"{path} is not valid TOML: {error}.") from error
    if not content:
        raise UserError(f"{path} has no states: write one as a table, [name], with conditions below it.")
    reader = _Reader(path, molecule, observables_of(molecule))
    return [State(name, reader.state(name, table)) for name, table in content.items()]


def find_observable(name: str, known: Mapping[str, Observable]) -> Observable | None:
    """Return an observable by its name; Greek letters, underscores and the case of letters do not matter."""
    if name in known:
        return known[name]
    wanted = _folded(name)
    return next((observable for key, observable in known.items() if _folded(key) == wanted), None)


def _folded(name: str) -> str:
    for letter, word in _GREEK.items():
        name = name.replace(letter, word)
    return name.lower().replace("_", " ").strip()


@dataclass(frozen=True)
class _Reader:
    """Turns tables into masks, and knows where it is for messages."""

    path: Path
    molecule: Molecule
    observables: Mapping[str, Observable]

    def state(self, name: str, table: Any) -> Mask:
        where = f"{self.path}, state '{name}'"
        if not isinstance(table, dict):
            raise UserError(f"{where}: a state is a table, [{name}], with conditions below it.")
        if not table:
            raise UserError(f"{where} has no conditions, so that it would hold everything.")
        return all_of([self._condition(f"{where}, '{key}'", key, value) for key, value in table.items()])

    def _condition(self, where: str, key: str, value: Any) -> Mask:
        if key == "cluster":
            return self._cluster(where, value)
        if key == "rmsd" and isinstance(value, dict) and "to" in value:
            return self._near(where, value)
        observable = find_observable(key, self.observables)
        if observable is None:
            raise UserError(f"{where}: there is no such observable.{self._hint(key)}")
        low, high = _ends(where, value, observable)
        return within(observable, low, high)

    def _hint(self, key: str) -> str:
        if key in ("sasa", "helicity") and "sasa" not in self.observables:
            return " It needs MDTraj: pip install mdtraj."
        return did_you_mean(key, [*self.observables, "cluster"])

    def _near(self, where: str, value: dict[str, Any]) -> Mask:
        _refuse_unknown(where, value, ("to", "below", "atoms"))
        below = _number(where, "below", value.get("below"))
        if below <= 0:
            raise UserError(f"{where}: below is a positive number of nm, not {below:g}.")
        atoms = chosen_atoms(self.molecule, value.get("atoms", "heavy"), where)
        structure = read_reference(self._beside(where, "to", value["to"]), self.molecule)[atoms]
        return lambda x: rmsd(x[:, atoms], structure) < below

    def _cluster(self, where: str, value: Any) -> Mask:
        if not isinstance(value, dict):
            raise UserError(f'{where}: write it as {{ analysis = "analysis.json", number = 1 }}.')
        _refuse_unknown(where, value, ("analysis", "number"))
        number = value.get("number")
        path = self._beside(where, "analysis", value.get("analysis"))
        found = _stored_partition(path, self.molecule)
        if not isinstance(number, int) or not 1 <= number <= len(found.medoids):
            raise UserError(f"{where}: {path} has clusters 1 to {len(found.medoids)}, not {_shown(number)}.")
        return lambda x: found.number(x) == number

    def _beside(self, where: str, key: str, value: Any) -> Path:
        if not isinstance(value, str):
            raise UserError(f"{where}: {key} is the name of a file, not {_shown(value)}.")
        return self.path.parent / value


def _ends(where: str, value: Any, observable: Observable) -> tuple[float, float]:
    """Return the range of an observable in its own unit."""
    unit = "degrees" if observable.periodic else (observable.unit or "parts of 1")
    if isinstance(value, dict):
        _refuse_unknown(where, value, ("above", "below"))
        if not value:
            raise UserError(f"{where}: give above, below, or both, in {unit}.")
        open_ends = (-180.0, 180.0) if observable.periodic else (-_FAR, _FAR)
        pairs = zip(("above", "below"), open_ends, strict=True)
        low, high = (_number(where, key, value.get(key, end)) for key, end in pairs)
    elif isinstance(value, list) and len(value) == 2:
        low, high = (_number(where, name, end) for name, end in zip(("from", "to"), value, strict=True))
    else:
        raise UserError(f"{where}: a range is [from, to] or {{ above = … }}, in {unit}, not {_shown(value)}.")
    if low == high or (observable.periodic and low - high == 360):
        raise UserError(f"{where}: nothing lies between {low:g} and {high:g}.")
    if not observable.periodic:
        if low > high:
            raise UserError(
                f"{where}: the range goes from {low:g} down to {high:g}; write the lower end first."
            )
        return low, high
    return _radians(where, low, high)


def _radians(where: str, low: float, high: float) -> tuple[float, float]:
    if max(abs(low), abs(high)) > 360:
        raise UserError(f"{where}: angles are in degrees from -360 to 360, not {low:g} to {high:g}.")
    if any(abs(abs(end) / math.pi - turns) < 2e-3 for end in (low, high) for turns in (0.5, 1, 2)):
        raise UserError(f"{where}: {low:g} to {high:g} looks like radians; angles are in degrees here.")
    return math.radians(low), math.radians(high)


def _number(where: str, key: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not -_LARGEST <= value <= _LARGEST:
        raise UserError(f"{where}: {key} must be a number, not {_shown(value)}.")
    return float(value)


def _shown(value: Any) -> str:
    """Return a value as messages quote it: the beginning of what is long says enough."""
    text = repr(value)
    return text if len(text) <= _QUOTED else f"{text[:_QUOTED]}…"


def _refuse_unknown(where: str, value: Mapping[str, Any], known: Iterable[str]) -> None:
    for key in value:
        if key not in known:
            raise UserError(f"{where}: there is no setting '{key}'.{did_you_mean(key, known)}")


def _stored_partition(path: Path, molecule: Molecule) -> Partition:
    """Return the partition of an earlier analysis, by the torsions of its clusters."""
    content = read_json(path)
    clusters = content.get("clusters") if isinstance(content, dict) else None
    if not clusters:
        raise UserError(f"{path} is no analysis with clusters: write one with boltzkit analyze.")
    known = {torsion.name: torsion for torsion in torsions_of(molecule)}
    try:
        names = list(clusters[0]["torsions"])
        medoids = torch.tensor(
            [[c["torsions"][name] for name in names] for c in clusters], dtype=torch.float64
        )
    except (LookupError, TypeError, ValueError, OverflowError, RuntimeError) as error:
        raise UserError(
            f"{path} is damaged: its clusters have no torsions; analyse the ensemble again."
        ) from error
    missing = [name for name in names if name not in known]
    if missing:
        raise UserError(f"{path} speaks of the torsion '{missing[0]}', which {molecule.name} does not have.")
    if medoids.shape != (len(clusters), len(names)) or not names or not medoids.isfinite().all():
        raise UserError(f"{path} is damaged: its clusters have no torsions; analyse the ensemble again.")
    return Partition(torsion_rows([known[name] for name in names]), tuple(names), medoids)
