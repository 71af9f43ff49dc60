"""The torsions that chemists look at first: φ, ψ and ω of a peptide's residues."""

from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import Tensor

from boltzkit.molecule.torsions import dihedral

__all__ = ["Backbone"]


@dataclass(frozen=True, eq=False)
class Backbone:
    """Atoms of the backbone torsions of a molecule; all empty if it is no peptide.

    Attributes:
        names: residues that have both φ and ψ, such as ``ALA2``.
        phi: four atoms each, ``(residues, 4)``.
        psi: likewise.
        omega_names: peptide bonds, such as ``ALA2-NME3``.
        omega: four atoms each, ``(peptide bonds, 4)``.
    """

    names: tuple[str, ...]
    phi: Tensor
    psi: Tensor
    omega_names: tuple[str, ...]
    omega: Tensor

    @classmethod
    def of(cls, topology: Any) -> Self:
        """Find the torsions by the names of atoms and the bonds between residues."""
        residues = list(topology.residues())
        atoms = [{atom.name: atom.index for atom in residue.atoms()} for residue in residues]
        after: dict[int, int] = {}
        for one, other in topology.bonds():
            for a, b in ((one, other), (other, one)):
                if a.residue != b.residue and (a.name, b.name) == ("C", "N"):
                    after[a.residue.index] = b.residue.index
        before = {b: a for a, b in after.items()}
        names, phi, psi, omega_names, omega = [], [], [], [], []
        for place, own in enumerate(atoms):
            name = f"{residues[place].name}{residues[place].id}"
            if place in before and place in after and {"N", "CA", "C"} <= own.keys():
                names.append(name)
                phi.append((atoms[before[place]]["C"], own["N"], own["CA"], own["C"]))
                psi.append((own["N"], own["CA"], own["C"], atoms[after[place]]["N"]))
            if place in after:
                following = atoms[after[place]]
                start, end = (_middle(a) for a in (own, following))
                if start is not None and end is not None:
                    next_residue = residues[after[place]]
                    omega_names.append(f"{name}-{next_residue.name}{next_residue.id}")
                    omega.append((start, own["C"], following["N"], end))
        rows = (torch.tensor(r, dtype=torch.int64).reshape(-1, 4) for r in (phi, psi, omega))
        return cls(tuple(names), next(rows), next(rows), tuple(omega_names), next(rows))

    def angles(self, x: Tensor) -> Tensor:
        """Return φ and ψ in radians, ``(..., atoms, 3) -> (..., residues, 2)``."""
        return torch.stack([dihedral(x, self.phi), dihedral(x, self.psi)], dim=-1)

    def cis(self, x: Tensor) -> Tensor:
        """Return which peptide bonds are cis, |ω| < π/2, ``(..., atoms, 3) -> (..., peptide bonds)``."""
        return dihedral(x, self.omega).abs() < torch.pi / 2


def _middle(atoms: dict[str, int]) -> int | None:
    """Return the carbon that a residue has where others have Cα; OpenMM's reader calls that of NME plain C."""
    return next((atoms[name] for name in ("CA", "CH3", "C1", "C") if name in atoms), None)
