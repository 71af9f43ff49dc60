"""The grid of metadynamics: Gaussians where they were put, alike in the simulation and in the referee."""

import math

import numpy as np
import openmm
import pytest
import torch
from openmm import unit

from boltzkit.molecule import Backbone, Molecule
from boltzkit.simulate.grid_bias import GridBias


@pytest.fixture
def rows(peptide: Molecule) -> list[list[int]]:
    backbone = Backbone.of(peptide.topology)
    return [backbone.phi[0].tolist(), backbone.psi[0].tolist()]


def test_gaussians_are_where_they_were_put_and_wrap_around(peptide: Molecule, rows: list[list[int]]) -> None:
    rng = np.random.default_rng(0)
    x = peptide.positions + 0.02 * torch.from_numpy(rng.normal(size=(30, peptide.n_atoms, 3)))
    for torsions in (rows[:1], rows):
        bias = GridBias(peptide, torsions, torch.zeros((60,) * len(torsions), dtype=torch.float64))
        assert np.abs(bias.energy(x)).max() == 0
        angles = bias.angles(x)
        centres = torch.tensor([[3.1, -3.0], [-2.9, 0.3]], dtype=torch.float64)[:, : len(torsions)]
        centres = torch.cat([centres, angles[:1]])
        bias.add(centres, [2.0, 1.0, 0.5], 0.4, [])
        away = angles[:, None] - centres
        away = torch.atan2(away.sin(), away.cos())
        heights = torch.tensor([2.0, 1.0, 0.5]).double()
        expected = (heights * torch.exp(-0.5 * (away / 0.4) ** 2).prod(-1)).sum(-1)
        np.testing.assert_allclose(bias.energy(x), expected, atol=5e-3)
        assert expected.max() > 0.4


def test_the_simulation_feels_what_the_referee_says(peptide: Molecule, rows: list[list[int]]) -> None:
    bias = GridBias(peptide, rows, torch.zeros(60, 60, dtype=torch.float64))
    integrator = openmm.VerletIntegrator(0.001)
    context = openmm.Context(bias.system, integrator, openmm.Platform.getPlatformByName("Reference"))
    x = peptide.positions.double()
    context.setPositions(x.numpy())

    def energy() -> float:
        value = context.getState(energy=True).getPotentialEnergy()
        return float(value.value_in_unit(unit.kilojoule_per_mole))

    before = energy()
    bias.add(bias.angles(x[None]) + 0.2, [7.0], 0.35, [context])
    assert energy() - before == pytest.approx(bias.energy(x[None])[0], abs=1e-6)
    assert energy() - before == pytest.approx(7 * math.exp(-((0.2 / 0.35) ** 2)), abs=0.02)
    # The molecule's own System is left as it was, and the values make the same bias again.
    assert bias.system.getNumForces() == peptide.system.getNumForces() + 1
    again = GridBias(peptide, rows, bias.values)
    assert again.energy(x[None]) == bias.energy(x[None])
