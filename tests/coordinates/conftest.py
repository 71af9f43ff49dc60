"""Molecules of every kind: the named ones, and structures from a file that says how they were made."""

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from openmm import app
from torch import Tensor

from boltzkit.coordinates import InternalCoordinates
from boltzkit.molecule import MOLECULES, Molecule, find_molecule

_STRUCTURES = json.loads((Path(__file__).parent / "structures.json").read_text())
_NAMES = [*MOLECULES, *(name for name in _STRUCTURES if name not in ("made_with", "acetylene"))]


@cache
def _molecule(name: str) -> Molecule:
    return find_molecule(name)


@cache
def _structure(name: str) -> tuple[Any, Tensor]:
    if name in MOLECULES:
        return _molecule(name).topology, _molecule(name).positions
    record = _STRUCTURES[name]
    labels = record["residues"].split(",")
    topology = app.Topology()
    chain = topology.addChain()
    residues = {}
    for label in dict.fromkeys(labels):
        residue, number = label.split()
        residues[label] = topology.addResidue(residue, chain, number)
    elements = map(app.Element.getBySymbol, record["elements"].split())
    atoms = [
        topology.addAtom(atom, element, residues[label])
        for atom, element, label in zip(record["names"].split(), elements, labels, strict=True)
    ]
    for a, b in record["bonds"]:
        topology.addBond(atoms[a], atoms[b])
    return topology, torch.tensor(record["positions"], dtype=torch.float64)


@cache
def _built(name: str) -> InternalCoordinates:
    return (
        InternalCoordinates.of(_molecule(name))
        if name in MOLECULES
        else InternalCoordinates(*_structure(name))
    )


def _latents(coordinates: InternalCoordinates, n: int, edge: float = 0.0, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    uniform = torch.rand(n, coordinates.dim, generator=generator, dtype=torch.float64)
    return edge + (1 - 2 * edge) * uniform


@pytest.fixture(scope="session")
def molecule() -> Callable[[str], Molecule]:
    """Return a named molecule, built once."""
    return _molecule


@pytest.fixture(scope="session")
def structure() -> Callable[[str], tuple[Any, Tensor]]:
    """Return topology and reference positions of any molecule here, by name."""
    return _structure


@pytest.fixture(scope="session")
def build() -> Callable[[str], InternalCoordinates]:
    """Return the internal coordinates of any molecule here, with its constraints where it has some."""
    return _built


@pytest.fixture(scope="session")
def latents() -> Callable[..., Tensor]:
    """Return random points of the unit box, float64, at least ``edge`` from its faces."""
    return _latents


@pytest.fixture(params=_NAMES)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def coordinates(name: str) -> InternalCoordinates:
    return _built(name)
