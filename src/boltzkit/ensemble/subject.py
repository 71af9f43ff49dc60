"""What samples are configurations of: a molecule at a temperature."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from torch import Tensor

from boltzkit.ensemble.other_hand import OtherHand
from boltzkit.errors import UserError
from boltzkit.molecule import Molecule, load_molecule

__all__ = ["Subject"]


@dataclass(frozen=True, eq=False)
class Subject:
    """A molecule at a temperature.

    Attributes:
        molecule: whose configurations the samples are.
        temperature: K.
        one_handed: whether what is the other way round than the molecule has an energy of +inf.
    """

    molecule: Molecule
    temperature: float
    one_handed: bool = False

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
        return cls(molecule, summary["temperature"], summary.get("one_handed") is True)

    def weightless(self, x: Tensor, energy: Tensor) -> dict[str, Tensor]:
        """Return by reason which samples ``(n, atoms, 3)`` have an energy of +inf on purpose, ``(n,)``."""
        forbidden = energy.detach().cpu().isposinf()
        if not self.one_handed or not bool(forbidden.any()):
            return {}
        found = OtherHand.of(self.molecule)(x.detach().cpu()[forbidden])
        return {
            reason: forbidden.clone().masked_scatter_(forbidden, befallen)
            for reason, befallen in found.items()
        }

    def summary(self) -> dict[str, Any]:
        """Return what the ensemble's summary says about it."""
        hand = {"one_handed": True} if self.one_handed else {}
        return {"molecule_hash": self.molecule.hash, "temperature": self.temperature, **hand}
