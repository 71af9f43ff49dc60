"""log Z of a harmonic molecule, a product of integrals in one variable, from the weights of a trained flow."""

import math

import openmm
import pytest
import torch
from torch import Tensor

from boltzkit.coordinates import InternalCoordinates
from boltzkit.energy import ForceField
from boltzkit.energy.constants import BOLTZMANN
from boltzkit.flow import SPLINE_PRESETS, Chain, Flow, build_spline_bijection, unit_box_base
from boltzkit.molecule import find_molecule
from boltzkit.randomness import generator
from boltzkit.weights import LogWeights

BETA = 1 / (BOLTZMANN * 300.0)
STIFFNESS = {"bond": 60_000.0, "angle": 60.0}
"""kJ/mol per nm² or rad²: soft, so that the measures b² and sin θ count."""


@pytest.fixture(scope="module")
def coordinates() -> InternalCoordinates:
    return find_molecule("alanine-dipeptide").internal_coordinates()


@pytest.fixture(scope="module")
def energy(coordinates: InternalCoordinates) -> ForceField:
    """Return an energy with one spring for every bond and angle of the z-matrix, and none for torsions."""
    system = openmm.System()
    bonds, angles = openmm.HarmonicBondForce(), openmm.HarmonicAngleForce()
    middle = (0.5 * (coordinates.low + coordinates.high)).tolist()
    for place, row in enumerate(coordinates.zmatrix.rows.tolist()):
        system.addParticle(12.0)
        if place >= 1:
            bonds.addBond(row[0], row[1], middle[place - 1], STIFFNESS["bond"])
        if place >= 2:
            angles.addAngle(*row[:3], middle[21 + place - 2], STIFFNESS["angle"])
    system.addForce(bonds)
    system.addForce(angles)
    return ForceField(system)


def densities(coordinates: InternalCoordinates) -> list[tuple[Tensor, Tensor]]:
    """Return for every dim a fine grid over its window, and the density on it with its measure."""
    found = []
    for kind, low, high in zip(
        coordinates.kinds, coordinates.low.tolist(), coordinates.high.tolist(), strict=True
    ):
        grid = torch.linspace(low, high, 4001, dtype=torch.float64)
        weight = torch.ones_like(grid)
        if kind != "torsion":
            measure = grid**2 if kind == "bond" else grid.sin()
            weight = measure * torch.exp(-0.5 * BETA * STIFFNESS[kind] * (grid - 0.5 * (low + high)) ** 2)
        found.append((grid, weight))
    return found


def exact_log_z(coordinates: InternalCoordinates) -> float:
    return sum(math.log(torch.trapezoid(weight, grid)) for grid, weight in densities(coordinates))


def exact_samples(coordinates: InternalCoordinates, n: int) -> Tensor:
    """Draw every dim by the inverse of its distribution function, in the unit box."""
    random = generator(0, "harmonic molecule")
    columns = []
    for grid, weight in densities(coordinates):
        cumulative = torch.cumulative_trapezoid(weight, grid)
        draw = torch.rand(n, generator=random, dtype=torch.float64) * cumulative[-1]
        place = torch.searchsorted(cumulative, draw)
        columns.append((place + 0.5) / (len(grid) - 1))
    return torch.stack(columns, dim=-1)


@pytest.fixture(scope="module")
def flow(coordinates: InternalCoordinates) -> Flow:
    bijection = build_spline_bijection(SPLINE_PRESETS["tiny"], coordinates.kinds, 0)
    chain = Chain([*bijection.links, coordinates])  # type: ignore[list-item]
    flow = Flow(unit_box_base(coordinates.kinds), chain, event_shape=(22, 3)).float()
    with torch.no_grad():
        x, _ = coordinates.transform(exact_samples(coordinates, 4000).float())
    optimiser = torch.optim.Adam(flow.parameters(), lr=1e-2)
    for step in range(80):
        optimiser.zero_grad()
        loss = -flow.log_prob(x[torch.arange(500 * step, 500 * (step + 1)) % len(x)]).mean()
        loss.backward()
        optimiser.step()
    return flow.eval()


def test_log_z_is_recovered(coordinates: InternalCoordinates, energy: ForceField, flow: Flow) -> None:
    with torch.no_grad():
        x, log_prob = flow.sample(20_000, generator(1, "samples"))
    weights = LogWeights.from_samples(log_prob.double(), energy(x).double())
    assert weights.n_failed == 0
    assert weights.ess_fraction > 0.3
    found, error = weights.log_mean(), weights.log_mean_error()
    assert error < 0.03
    assert abs(found - exact_log_z(coordinates)) < 3 * error
    # The control: an answer that forgets the measure of the angles is far off.
    angles = sum(
        math.log(torch.trapezoid(weight / grid.sin(), grid)) - math.log(torch.trapezoid(weight, grid))
        for (grid, weight), kind in zip(densities(coordinates), coordinates.kinds, strict=True)
        if kind == "angle"
    )
    assert abs(angles) > 10 * error
