"""Ensembles with known answers: Gaussians, and a peptide whose torsions are drawn from a density on paper."""

import json
import math
from collections.abc import Callable
from functools import cache
from pathlib import Path

import openmm
import pytest
import torch
from openmm import app
from torch import Tensor

from boltzkit.ensemble import Ensemble, Subject
from boltzkit.molecule import Molecule, find_molecule
from boltzkit.randomness import generator

LOG_Z = 3.0
RIGHT = 0.2
"""Weight of the component of φ at 60°; the other is at −80°, and both are 20° wide."""
_STRUCTURES = Path(__file__).parents[1] / "coordinates" / "structures.json"


@pytest.fixture(scope="session")
def dipeptide() -> Molecule:
    return find_molecule("alanine-dipeptide-cartesian")


@pytest.fixture(scope="session")
def side_chains() -> Molecule:
    """A peptide with χ torsions, a residue without Hα and one without HN."""
    return Molecule.from_sequence("ACE-LYS-GLY-PRO-SER-NME")


@pytest.fixture(scope="session")
def ligand() -> Callable[[str], Molecule]:
    """Return a molecule that is no peptide: bonds as springs at their lengths in the stored structure."""

    @cache
    def build(name: str) -> Molecule:
        record = json.loads(_STRUCTURES.read_text())[name]
        topology, system, springs = app.Topology(), openmm.System(), openmm.HarmonicBondForce()
        residue = topology.addResidue("LIG", topology.addChain(), "1")
        elements = [app.Element.getBySymbol(symbol) for symbol in record["elements"].split()]
        atoms = [
            topology.addAtom(a, e, residue) for a, e in zip(record["names"].split(), elements, strict=True)
        ]
        x = torch.tensor(record["positions"], dtype=torch.float64)
        for a, b in record["bonds"]:
            topology.addBond(atoms[a], atoms[b])
            springs.addBond(a, b, float((x[a] - x[b]).norm()), 1e5)
        for element in elements:
            system.addParticle(element.mass)
        system.addForce(springs)
        return Molecule.from_openmm(topology, system, x, name)

    return build


@pytest.fixture(scope="session")
def peptide_ensemble(dipeptide: Molecule) -> Callable[..., Ensemble]:
    """Return a maker of ensembles of alanine dipeptide with known torsions.

    φ and ψ are mixtures of two wrapped Gaussians, wider and half and half in q; all other coordinates are narrow
    Gaussians around the reference, the same in q and p. ``failed`` samples at the end have no energy; with
    ``left_only`` q has one component of each torsion only.
    """
    coordinates = dipeptide.internal_coordinates()
    centre = coordinates.inverse(dipeptide.positions[None])[0][0]
    chosen = [coordinates.labels.index(name) for name in ("φ ALA2", "ψ ALA2")]
    others = [i for i in range(coordinates.dim) if i not in chosen]

    def make(n: int = 2_000, seed: int = 0, failed: int = 0, left_only: bool = False) -> Ensemble:
        random = generator(seed, "peptide ensemble")
        u = centre + 0.005 * torch.randn(n, coordinates.dim, generator=random, dtype=torch.float64)
        log_q = _normal(u[:, others], centre[others], 0.005).sum(-1)
        log_p = log_q.clone()
        width = 17.0 if left_only else 25.0
        for dim, means in zip(chosen, ((-80.0, 60.0), (120.0, -40.0)), strict=True):
            first = torch.rand(n, generator=random) < (2.0 if left_only else 0.5)
            mean = torch.where(first, *map(torch.tensor, means))
            degrees = mean + width * torch.randn(n, generator=random, dtype=torch.float64)
            degrees = torch.remainder(degrees + 180, 360) - 180
            u[:, dim] = (degrees.deg2rad() - coordinates.low[dim]) / (
                coordinates.high[dim] - coordinates.low[dim]
            )
            log_q = log_q + _mixture(degrees, means, 1.0 if left_only else 0.5, width)
            log_p = log_p + _mixture(degrees, means, 1 - RIGHT, 20.0)
        x, log_det = coordinates.transform(u)
        energy = -log_p + log_det - LOG_Z
        if failed:
            energy[-failed:] = math.nan
            x[-failed:] = math.nan
        subject = Subject(dipeptide, 300.0)
        return Ensemble.from_samples(x.float(), energy, log_q - log_det, name="alanine", subject=subject)

    return make


@pytest.fixture
def gaussian_ensemble() -> Callable[..., Ensemble]:
    """Return a maker of one-dimensional ensembles: q = N(0, 1) against exp(−x²/2s²)."""

    def make(s: float, n: int, seed: int = 0) -> Ensemble:
        x = torch.randn(n, generator=generator(seed, "test"), dtype=torch.float64)
        log_prob = -0.5 * x**2 - 0.5 * math.log(2 * math.pi)
        return Ensemble.from_samples(x, 0.5 * (x / s) ** 2, log_prob, n, "gaussian")

    return make


def _normal(x: Tensor, mean: Tensor | float, width: float) -> Tensor:
    return -0.5 * ((x - mean) / width) ** 2 - math.log(width * math.sqrt(2 * math.pi))


def _mixture(degrees: Tensor, means: tuple[float, float], share: float, width: float) -> Tensor:
    """Return the log-density of a mixture of two wrapped Gaussians, per turn."""
    parts = []
    for mean, weight in zip(means, (share, 1 - share), strict=True):
        if weight > 0:
            turns = torch.stack([_normal(degrees + 360 * k, mean, width) for k in (-1, 0, 1)])
            parts.append(torch.logsumexp(turns, 0) + math.log(weight))
    return torch.logsumexp(torch.stack(parts), 0) + math.log(360)
