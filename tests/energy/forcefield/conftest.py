"""A molecule that nobody here made: openmmtools' alanine dipeptide, read from its files."""

import importlib.util
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from openmm import app, unit
from torch import Tensor


@dataclass(frozen=True)
class Sample:
    """What a force field needs: topology, System and a structure, ``(atoms, 3)`` nm."""

    topology: Any
    system: Any
    positions: Tensor


Amber = Callable[..., Sample]


def read_amber(prmtop: str, coordinates: str, **settings: Any) -> Sample:
    """Read files of openmmtools without importing it, for it warns and prints when imported."""
    package = importlib.util.find_spec("openmmtools")
    if package is None or package.submodule_search_locations is None:
        pytest.skip("openmmtools is not installed")
    data = Path(package.submodule_search_locations[0]) / "data"
    parameters = app.AmberPrmtopFile(str(data / prmtop))
    with warnings.catch_warnings():
        # That a file's radii were fitted for another solvent model does not matter here.
        warnings.filterwarnings("ignore", "Non-optimal GB parameters")
        system = parameters.createSystem(**settings)
    nm = app.AmberInpcrdFile(str(data / coordinates)).positions.value_in_unit(unit.nanometer)
    return Sample(
        parameters.topology, system, torch.tensor([tuple(atom) for atom in nm], dtype=torch.float64)
    )


@pytest.fixture(scope="session")
def amber() -> Amber:
    return read_amber


@pytest.fixture(scope="session")
def dipeptide() -> Sample:
    """Return alanine dipeptide in ff99SB-ILDN with GBSAOBC, at the structure of openmmtools."""
    folder = "alanine-dipeptide-gbsa/alanine-dipeptide"
    sample = read_amber(f"{folder}.prmtop", f"{folder}.crd")
    system = app.ForceField("amber99sbildn.xml", "amber99_obc.xml").createSystem(sample.topology)
    return Sample(sample.topology, system, sample.positions)
