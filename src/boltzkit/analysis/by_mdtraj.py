"""What MDTraj computes: the surface that solvent reaches, and how much of a chain is helix."""

import importlib
import importlib.util
from typing import Any

import torch
from torch import Tensor

from boltzkit.errors import UserError
from boltzkit.molecule import Molecule

__all__ = ["Helicity", "SolventArea", "has_mdtraj", "mdtraj_module", "mdtraj_topology"]

_CHUNK = 1_000
"""Frames at a time: a few MB."""


def has_mdtraj() -> bool:
    """Say whether MDTraj is installed, without loading it."""
    return importlib.util.find_spec("mdtraj") is not None


def mdtraj_module(purpose: str) -> Any:
    """Return the module, or refuse with what it is needed for and how to get it."""
    try:
        return importlib.import_module("mdtraj")
    except ImportError as error:
        raise UserError(f"{purpose} needs MDTraj: pip install mdtraj.") from error


def mdtraj_topology(molecule: Molecule, purpose: str) -> Any:
    """Return the molecule's topology as MDTraj has it."""
    return mdtraj_module(purpose).Topology.from_openmm(molecule.topology)


class SolventArea:
    """Solvent-accessible surface in nm² by Shrake and Rupley's algorithm, with a probe of 0.14 nm; 0.7 ms a frame."""

    def __init__(self, molecule: Molecule) -> None:
        self._molecule = molecule

    def __call__(self, x: Tensor) -> Tensor:
        """Return the area of all atoms, ``(n, atoms, 3) -> (n,)``; NaN for configurations that are not finite."""
        return _over_frames(x, self._molecule, "The solvent-accessible surface", self._area)

    @staticmethod
    def _area(trajectory: Any, mdtraj: Any) -> Any:
        return mdtraj.shrake_rupley(trajectory, mode="residue").sum(1)


class Helicity:
    """The share of residues that DSSP counts to a helix (α, 3₁₀ or π), of those it judges; caps are not among them."""

    def __init__(self, molecule: Molecule) -> None:
        self._molecule = molecule

    def __call__(self, x: Tensor) -> Tensor:
        """Return the share, ``(n, atoms, 3) -> (n,)``; NaN for configurations that are not finite."""
        return _over_frames(x, self._molecule, "The helicity", self._share)

    @staticmethod
    def _share(trajectory: Any, mdtraj: Any) -> Any:
        code = mdtraj.compute_dssp(trajectory, simplified=True)
        return (code == "H").sum(1) / (code != "NA").sum(1)


def _over_frames(x: Tensor, molecule: Molecule, purpose: str, function: Any) -> Tensor:
    """Apply a function of an MDTraj trajectory, chunk by chunk, to the configurations that are finite."""
    mdtraj, topology = mdtraj_module(purpose), mdtraj_topology(molecule, purpose)
    result = torch.full((len(x),), torch.nan, dtype=torch.float64)
    finite = x.isfinite().flatten(1).all(1).nonzero().squeeze(1)
    for rows in torch.split(finite, _CHUNK):
        trajectory = mdtraj.Trajectory(x[rows].float().numpy(), topology)
        result[rows] = torch.as_tensor(function(trajectory, mdtraj), dtype=torch.float64)
    return result
