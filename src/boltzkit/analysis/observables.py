"""What a chemist asks of a configuration: torsions, sizes, distances to a structure, couplings, surface, helix."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain

import torch
from torch import Tensor

from boltzkit.analysis.by_mdtraj import Helicity, SolventArea, has_mdtraj
from boltzkit.analysis.karplus import karplus
from boltzkit.analysis.shape import distance, radius_of_gyration, rmsd
from boltzkit.analysis.torsion_names import Torsion, torsions_of
from boltzkit.molecule import Backbone, Molecule
from boltzkit.molecule.torsions import dihedral
from boltzkit.simulate.dynamics import masses

__all__ = ["Observable", "heavy_atoms", "observables_of", "torsion_observable"]

_CHUNK = 20_000
"""Configurations at a time, so that float64 copies stay small."""
_HELIX = 5
"""Residues with φ and ψ from which DSSP can find a helix: two turns in a row, of three residues each."""

Values = Callable[[Tensor], Tensor]
"""``(n, atoms, 3) -> (n,)``."""


@dataclass(frozen=True, eq=False)
class Observable:
    """A number that every configuration has.

    Attributes:
        name: as states and tables call it.
        unit: ``rad``, ``nm``, ``nm²``, ``Hz``, or empty for a share.
        periodic: whether it is an angle that goes round, in (−π, π].
        values: ``(n, atoms, 3) -> (n,)`` in float64; NaN for configurations that are not finite.
        slow: whether it takes about a millisecond a configuration, so that averages use only some of them.
    """

    name: str
    unit: str
    periodic: bool
    values: Values
    slow: bool = False


def observables_of(molecule: Molecule) -> dict[str, Observable]:
    """Return all observables of a molecule by name.

    - ``phi ALA2``, ``psi ALA2``, ``omega ALA2-NME3``, ``chi1 LEU3``, and ``C1-C2-O1-H3`` for other bonds that turn
    - ``radius_of_gyration``, weighted by mass
    - ``rmsd`` of heavy atoms to the molecule's minimised structure
    - ``end_to_end`` of a chain of residues: from the first Cα, or carbon of a cap, to the last
    - ``3J(HN,HA) ALA2`` of residues that have both protons, by `karplus`
    - ``sasa`` and, of five residues or more, ``helicity``, where MDTraj is installed
    """
    found = chain(
        (torsion_observable(torsion) for torsion in torsions_of(molecule)),
        _sizes(molecule),
        _couplings(molecule),
        _by_mdtraj(molecule),
    )
    return {observable.name: observable for observable in found}


def torsion_observable(torsion: Torsion) -> Observable:
    """Return a torsion as an observable, in radians."""
    atoms = torch.tensor(torsion.atoms)
    return Observable(torsion.name, "rad", True, _in_chunks(lambda x: _angle(x, atoms)))


def heavy_atoms(molecule: Molecule) -> Tensor:
    """Return the atoms that are no hydrogens; all, if there are no others."""
    elements = [atom.element for atom in molecule.topology.atoms()]
    heavy = [i for i, element in enumerate(elements) if element is None or element.symbol != "H"]
    return torch.tensor(heavy or range(molecule.n_atoms))


def _sizes(molecule: Molecule) -> Iterator[Observable]:
    mass, heavy = masses(molecule).squeeze(-1), heavy_atoms(molecule)
    reference = molecule.positions[heavy]
    yield Observable("radius_of_gyration", "nm", False, _in_chunks(lambda x: radius_of_gyration(x, mass)))
    yield Observable("rmsd", "nm", False, _in_chunks(lambda x: rmsd(x[:, heavy], reference)))
    ends = _chain_ends(molecule)
    if ends is not None:
        first, last = ends
        yield Observable("end_to_end", "nm", False, _in_chunks(lambda x: distance(x, first, last)))


def _chain_ends(molecule: Molecule) -> tuple[int, int] | None:
    """Return the first and the last Cα, or carbon of a cap, of a peptide; None for other molecules."""
    omega = Backbone.of(molecule.topology).omega
    if not len(omega) or omega[0, 0] == omega[-1, 3]:  # the same atom in a ring of residues
        return None
    return int(omega[0, 0]), int(omega[-1, 3])


def _couplings(molecule: Molecule) -> Iterator[Observable]:
    backbone, atoms = Backbone.of(molecule.topology), list(molecule.topology.atoms())
    for name, phi in zip(backbone.names, backbone.phi, strict=True):
        protons = {atom.name for atom in atoms[int(phi[1])].residue.atoms()}
        if protons & {"H", "HN"} and "HA" in protons:
            yield Observable(f"3J(HN,HA) {name}", "Hz", False, _in_chunks(_coupling(phi)))


def _coupling(phi: Tensor) -> Values:
    return lambda x: karplus(_angle(x, phi))


def _angle(x: Tensor, atoms: Tensor) -> Tensor:
    """Return one torsion, ``(n,)``; only its four atoms are taken to float64."""
    return dihedral(x[:, atoms].double(), torch.arange(4)[None])[:, 0]


def _by_mdtraj(molecule: Molecule) -> Iterator[Observable]:
    if not has_mdtraj():
        return
    yield Observable("sasa", "nm²", False, SolventArea(molecule), slow=True)
    if len(Backbone.of(molecule.topology).names) >= _HELIX:
        yield Observable("helicity", "", False, Helicity(molecule), slow=True)


def _in_chunks(function: Values) -> Values:
    """Return NaN where a configuration is not finite: what four sound atoms of it would give means nothing."""

    def chunk(x: Tensor) -> Tensor:
        return torch.where(x.isfinite().flatten(1).all(1), function(x), torch.nan)

    return lambda x: torch.cat([chunk(part) for part in torch.split(x.detach().cpu(), _CHUNK)])
