"""What samples are configurations of: a molecule at a temperature."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from boltzkit.errors import UserError
from boltzkit.molecule import Molecule, load_molecule

__all__ = ["Subject"]


@dataclass(frozen=True, eq=False)
class Subject:
    """A molecule at a temperature.

    Attributes:
        molecule: whose configurations the samples are.
        temperature: K.
    """

    molecule: Molecule
    temperature: float

    @classmethod
    def load(cls, folder: Path, summary: Mapping[str, Any]) -> Self | None:
        """Return the molecule of an ensemble's folder, None if its summary speaks of none."""
        if "molecule_hash" not in summary:
            return None
        molecule = load_molecule(folder, summary["name"])
        if molecule.hash != summary["molecule_hash"]:
            raise UserError(
                f"{folder}: system.xml and topology.pdb are not of the molecule that the samples were drawn for; "
                "draw the ensemble again."
            )
        return cls(molecule, summary["temperature"])

    def summary(self) -> dict[str, Any]:
        """Return what the ensemble's summary says about it."""
        return {"molecule_hash": self.molecule.hash, "temperature": self.temperature}
