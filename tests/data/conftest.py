"""A molecule, frames of it, and datasets small enough to look at."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from boltzkit.data import About, DatasetWriter
from boltzkit.data.energies import PotentialEnergy
from boltzkit.molecule import Molecule

ATOMS = 2


def about(**changes: Any) -> About:
    """Describe samples of two atoms that no force field knows."""
    content = {"molecule": "pair", "molecule_hash": "0" * 64, "n_atoms": ATOMS, "temperature": 300.0}
    return About(**content | changes)


def columns(first: int, n: int, trajectory: int = 0, start: int = 0) -> dict[str, Any]:
    """Return samples that carry their own number: energy first, first + 1, …, positions ten times that."""
    number = np.arange(first, first + n)
    return {
        "positions": np.broadcast_to(10.0 * number[:, None, None], (n, ATOMS, 3)),
        "energy": number.astype(float),
        "trajectory": np.full(n, trajectory),
        "frame": np.arange(start, start + n),
    }


@pytest.fixture(scope="session")
def describe() -> Callable[..., About]:
    return about


@pytest.fixture(scope="session")
def numbered() -> Callable[..., dict[str, Any]]:
    return columns


@pytest.fixture(scope="session")
def written_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dataset of 5 + 7 training, 4 validation and 3 test samples; trajectory 0 comes in two shards."""
    path = tmp_path_factory.mktemp("dataset") / "data"
    with DatasetWriter(path, about()) as writer:
        writer.append("a", "train", columns(0, 5, trajectory=0, start=10))
        writer.append("b", "validation", columns(5, 4, trajectory=1))
        writer.append("c", "train", columns(9, 7, trajectory=0, start=0))
        writer.append("d", "test", columns(16, 3, trajectory=3))
    return path


@pytest.fixture
def folder(written_once: Path, tmp_path: Path) -> Path:
    """A copy of that dataset for a test to spoil."""
    return shutil.copytree(written_once, tmp_path / "data")


@pytest.fixture(scope="session")
def dipeptide() -> Molecule:
    return Molecule.from_sequence("ACE-ALA-NME")


@pytest.fixture(scope="session")
def potential(dipeptide: Molecule) -> PotentialEnergy:
    return PotentialEnergy(dipeptide)


@pytest.fixture(scope="session")
def frames(dipeptide: Molecule) -> Callable[..., Any]:
    """Return frames around the minimum, about as hot as bonds at 300 K, ``(n, atoms, 3)`` nm."""

    def make(n: int, seed: int = 0) -> Any:
        noise = np.random.default_rng(seed).normal(size=(n, dipeptide.n_atoms, 3))
        return (dipeptide.positions.numpy() + 0.002 * noise).astype(np.float32)

    return make
