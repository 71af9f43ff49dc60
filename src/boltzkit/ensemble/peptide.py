"""What to keep of a peptide's configurations: backbone torsions, peptide bonds, and slow coordinates."""

from dataclasses import dataclass

import torch
from torch import Tensor

from boltzkit.ensemble.tica import Tica
from boltzkit.molecule import Backbone

__all__ = ["PeptideObservables"]


@dataclass(frozen=True, eq=False)
class PeptideObservables:
    """Keep φ and ψ (``angles``), whether a peptide bond is cis (``cis``), and the projection on slow modes (``tica``).

    Float32 and booleans: 8 bytes for each pair of angles.

    Attributes:
        backbone: where the torsions are.
        tica: slow coordinates, where they are known.
    """

    backbone: Backbone
    tica: Tica | None = None

    def __call__(self, x: Tensor) -> dict[str, Tensor]:
        """Return the observables of configurations ``(n, atoms, 3)``."""
        angles = self.backbone.angles(x)
        kept = {"angles": angles.float(), "cis": self.backbone.cis(x)}
        if self.tica is not None:
            kept["tica"] = self.tica.project(angles).to(torch.float32)
        return kept
