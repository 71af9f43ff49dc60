"""The harmonic start: equipartition in stiff coordinates, free torsions, and its price."""

import pytest
import torch

from boltzkit.energy import TargetConfig
from boltzkit.errors import Interrupted, UserError
from boltzkit.flow import RealNVPConfig, SplineFlowConfig
from boltzkit.method import MoleculeConfig, RunConfig, fit
from boltzkit.method.annealing import AnnealingConfig
from boltzkit.method.annealing.harmonic import HarmonicStart, turning_dims
from boltzkit.method.fit import check_config
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


@pytest.fixture(scope="module")
def relaxed(molecule, coordinates):
    """A start before and after its conformers were relaxed, and what that cost."""
    target = molecule.energy(300.0)
    start = HarmonicStart.of(coordinates, target, molecule.positions, 2.0)
    before = target.evaluations
    after = start.relaxed(coordinates, target, 500, 2.0, generator(0, "conformers"))
    return start, after, target.evaluations - before


def test_relaxed_conformers_lie_lower_in_all_basins(molecule, coordinates, relaxed):
    start, after, cost = relaxed
    assert cost == 3 * 500
    assert after.shares.sum() == pytest.approx(1.0)
    target = molecule.energy(300.0)
    phi = coordinates.labels.index("φ ALA2")
    medians = {}
    for name, one in (("reference", start), ("relaxed", after)):
        y = one.sample(4000, generator(1, "samples"))
        assert ((y >= 0) & (y <= 1)).all()
        x, log_det = coordinates.transform(y)
        potential = target(x).double() - log_det
        for basin in (y[:, phi] < 0.5, y[:, phi] >= 0.5):
            medians.setdefault(name, []).append(float(potential[basin].median()))
    for unrelaxed, found in zip(medians["reference"], medians["relaxed"], strict=True):
        assert found < unrelaxed - 20  # in units of kT


def test_torsions_may_relax_too(molecule, coordinates, relaxed):
    """Overlaps of random torsions then go, at an evaluation a step; without, only bonds and angles move."""
    start, _, _ = relaxed
    target = molecule.energy(300.0)
    turning = turning_dims(coordinates)

    def found(torsions):
        after = start.relaxed(coordinates, target, 400, 2.0, generator(0, "conformers"), 10, torsions)
        x, log_det = coordinates.transform(after.conformers)
        return after.conformers[:, turning], target(x).double() - log_det

    (still, above), (moved, below) = found(torsions=False), found(torsions=True)
    assert target.evaluations == 2 * 400 * 11
    assert ((moved >= 0) & (moved <= 1)).all()
    drawn = torch.rand(400, coordinates.dim, generator=generator(0, "conformers"), dtype=torch.float64)
    assert torch.equal(still, drawn[:, turning])
    assert ((moved - still).abs() > 0).double().mean() > 0.9
    assert below.quantile(0.9) < above.quantile(0.9) - 10  # in units of kT
    assert below.median() < above.median() - 3


def test_conformers_without_an_energy_are_left_out(molecule, coordinates, relaxed):
    start, after, _ = relaxed
    target = molecule.energy(300.0)
    energy = target._energy
    target._energy = lambda x: torch.where(torch.arange(len(x)) % 2 == 0, torch.nan, energy(x))
    some = start.relaxed(coordinates, target, 500, 2.0, generator(0, "conformers"))
    assert torch.equal(some.conformers, after.conformers[1::2])
    target._energy = lambda x: energy(x) + torch.inf
    assert start.relaxed(coordinates, target, 500, 2.0, generator(0, "conformers")) is start


def config(**changes) -> RunConfig:
    annealing = AnnealingConfig(stages=2, evaluations=400, pretraining=3, start="harmonic")
    return RunConfig(
        target=MoleculeConfig(molecule="alanine-dipeptide"),
        flow=SplineFlowConfig(pairs=1, hidden=(8, 8), bins=4),
        annealing=annealing,
        training=TrainingConfig(steps=4, batch=32, log_every=1, validate_every=1),
    ).model_copy(update=changes)


@pytest.mark.parametrize(("relaxation", "spent"), [(0.0, 120), (0.3, 240)])
def test_a_run_starts_from_it_within_its_budget(tmp_path, relaxation, spent):
    settings = config()
    annealing = settings.annealing.model_copy(update={"relaxation": relaxation})
    model, _ = fit(settings.model_copy(update={"annealing": annealing}), tmp_path / "run")
    first, last = (
        RunFolder(folder).metrics() for folder in (tmp_path / "run" / "pretraining", tmp_path / "run")
    )
    assert [line["evaluations"] for line in first] == [spent] * 3
    assert last[-1]["evaluations"] == 400
    assert model.step == 4


def test_the_reverse_kl_may_follow_it(tmp_path):
    """Within the budget, and from where the harmonic start ended; stopped in its midst, it goes on bit for bit."""
    settings = config(annealing=config().annealing.model_copy(update={"descent": 4, "evaluations": 500}))
    whole, _ = fit(settings, tmp_path / "whole")
    lines = RunFolder(tmp_path / "whole" / "descent").metrics()
    assert [line["evaluations"] for line in lines] == [120 + 32 * step for step in (1, 2, 3, 4)]
    assert RunFolder(tmp_path / "whole").metrics()[-1]["evaluations"] == 500

    def stop(line, steps):
        if steps == 4 and line["step"] == 2 and "exponent" not in line:
            raise Interrupted("here")

    with pytest.raises(Interrupted):
        fit(settings, tmp_path / "parts", stop)
    resumed, _ = fit(settings, tmp_path / "parts")
    plain, _ = fit(config(), tmp_path / "plain")
    ours, theirs, others = (model.flow.state_dict() for model in (whole, resumed, plain))
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)
    assert not all(torch.equal(ours[name], others[name]) for name in ours)


@pytest.mark.parametrize("change", [{"start": "reverse_kl"}, {"pretraining": 0}])
def test_a_descent_from_nowhere_is_refused(change):
    annealing = config().annealing.model_copy(update={"descent": 4, **change})
    with pytest.raises(UserError, match="descent follows a harmonic start"):
        check_config(config(annealing=annealing))


def test_what_has_no_internal_coordinates_is_refused(tmp_path):
    flow = RealNVPConfig(layers=2, hidden=(4, 4), statistics="running")
    with pytest.raises(UserError, match="harmonic start needs a molecule"):
        fit(config(target=TargetConfig(name="gmm"), flow=flow), tmp_path / "run")
