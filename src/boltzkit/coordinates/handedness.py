"""Which way round the stereocentres of configurations are, for flows on Cartesian coordinates, which hold none."""

from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import Tensor

from boltzkit.coordinates.labels import atom_labels
from boltzkit.errors import UserError
from boltzkit.molecule import Molecule
from boltzkit.molecule.graph import neighbours
from boltzkit.molecule.stereo import handedness, stereocentres

__all__ = ["Handedness"]


@dataclass(frozen=True, eq=False)
class Handedness:
    """Which way round each tetrahedral centre stands in a reference structure.

    It is the orientation of the tetrahedron of its four neighbours, the same whichever three of them one looks at.

    Attributes:
        n_atoms: number of atoms.
        corners: the four neighbours of each centre, right-handed in the reference, ``(centres, 4)``.
        labels: names of the centres for people: ``ALA2:CA``.
    """

    n_atoms: int
    corners: Tensor
    labels: tuple[str, ...]

    @classmethod
    def of(cls, molecule: Molecule, *, permutations: bool = False) -> Self:
        """Return the stereocentres of a molecule as its reference structure has them."""
        return cls.from_structure(molecule.topology, molecule.positions, permutations=permutations)

    @classmethod
    def from_structure(cls, topology: Any, positions: Tensor, *, permutations: bool = False) -> Self:
        """Return the stereocentres of a structure.

        Args:
            topology: OpenMM Topology.
            positions: the reference structure, ``(atoms, 3)`` nm.
            permutations: take centres with alike neighbours too (methyls, methylenes), where being the other way
                round means that two of these have changed places.
        """
        near = neighbours(topology)
        stereo = {atom.index for atom in stereocentres(topology)}
        centres = [
            index
            for index, around in enumerate(near)
            if len(around) == 4 and (permutations or index in stereo)
        ]
        corners = torch.tensor([near[index] for index in centres], dtype=torch.int64).reshape(-1, 4)
        left = handedness(positions.detach().cpu(), corners) < 0
        corners[left] = corners[left][:, [0, 1, 3, 2]]
        return cls(len(near), corners, atom_labels(topology, [[index] for index in centres]))

    def wrong_centres(self, x: Tensor) -> Tensor:
        """Return which centres are the other way round, ``(..., atoms, 3) -> (..., centres)``, bool."""
        if x.ndim < 2 or tuple(x.shape[-2:]) != (self.n_atoms, 3):
            raise UserError(f"Configurations are of shape (..., {self.n_atoms}, 3), not {tuple(x.shape)}.")
        return (handedness(x.detach().movedim(-2, 0), self.corners.to(x.device)) < 0).movedim(0, -1)

    def wrong(self, x: Tensor) -> Tensor:
        """Return which configurations have any centre the other way round, ``(..., atoms, 3) -> (...)``, bool.

        A configuration that is not finite is not called wrong: its energy already fails.
        """
        return self.wrong_centres(x).any(-1)
