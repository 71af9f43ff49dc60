"""The harmonic start: equipartition in stiff coordinates, free torsions, and its price."""

import pytest
import torch

from boltzkit.energy import TargetConfig
from boltzkit.errors import UserError
from boltzkit.flow import RealNVPConfig, SplineFlowConfig
from boltzkit.method import MoleculeConfig, RunConfig, fit
from boltzkit.method.annealing import AnnealingConfig
from boltzkit.method.annealing.harmonic import HarmonicStart, turning_dims
from boltzkit.molecule import find_molecule
from boltzkit.randomness import generator
from boltzkit.training import RunFolder, TrainingConfig


@pytest.fixture(scope="module")
def molecule():
    return find_molecule("alanine-dipeptide")


@pytest.fixture(scope="module")
def coordinates(molecule):
    return molecule.internal_coordinates()


def excess(start: HarmonicStart, molecule, coordinates, stretch: float = 1.0) -> float:
    """Return the mean energy above the minimum per stiff coordinate, torsions about bonds held."""
    target = molecule.energy(300.0)
    y = start._replace(factor=stretch * start.factor).sample(4000, generator(0, "start"))
    turning = turning_dims(coordinates)
    y[:, turning] = start.centre[turning]
    x, log_det = coordinates.transform(torch.cat([start.centre[None], y]))
    potential = target(x).double() - log_det
    return float((potential[1:] - potential[0]).median()) / len(start.stiff)


@pytest.mark.parametrize("temperature", [0.25, 1.0])
def test_stiff_coordinates_have_half_a_unit_of_energy_each(molecule, coordinates, temperature):
    start = HarmonicStart.of(coordinates, molecule.energy(300.0), molecule.positions, temperature)
    assert excess(start, molecule, coordinates) == pytest.approx(0.5 * temperature, rel=0.2)
    # Control: fluctuations half as large again.
    assert excess(start, molecule, coordinates, stretch=1.5) > 0.9 * temperature


def test_torsions_about_bonds_turn_freely(molecule, coordinates):
    names = [coordinates.labels[dim] for dim in turning_dims(coordinates)]
    assert {"φ ALA2", "ψ ALA2", "ω ACE1", "ω ALA2"} < set(names)
    assert len(names) == 7  # and three methyl groups
    target = molecule.energy(300.0)
    start = HarmonicStart.of(coordinates, target, molecule.positions, 1.0)
    assert target.evaluations == 2 * coordinates.dim
    y = start.sample(2000, generator(0, "start"))
    assert ((y >= 0) & (y <= 1)).all()
    spread = y.std(0)
    assert (spread[turning_dims(coordinates)] - 12**-0.5).abs().max() < 0.02
    assert spread[start.stiff].max() < 0.2


def config(**changes) -> RunConfig:
    annealing = AnnealingConfig(stages=2, evaluations=400, pretraining=3, start="harmonic")
    return RunConfig(
        target=MoleculeConfig(molecule="alanine-dipeptide"),
        flow=SplineFlowConfig(pairs=1, hidden=(8, 8), bins=4),
        annealing=annealing,
        training=TrainingConfig(steps=4, batch=32, log_every=1, validate_every=1),
    ).model_copy(update=changes)


def test_a_run_starts_from_it_within_its_budget(tmp_path):
    model, _ = fit(config(), tmp_path / "run")
    first, last = (
        RunFolder(folder).metrics() for folder in (tmp_path / "run" / "pretraining", tmp_path / "run")
    )
    assert [line["evaluations"] for line in first] == [120] * 3
    assert last[-1]["evaluations"] == 400
    assert model.step == 4


def test_what_has_no_internal_coordinates_is_refused(tmp_path):
    flow = RealNVPConfig(layers=2, hidden=(4, 4), statistics="running")
    with pytest.raises(UserError, match="harmonic start needs a molecule"):
        fit(config(target=TargetConfig(name="gmm"), flow=flow), tmp_path / "run")
