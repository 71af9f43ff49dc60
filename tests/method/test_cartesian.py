"""Flows on Cartesian coordinates in the whole line: trained, judged and drawn from like any other."""

import math

import pytest
import torch

from boltzkit.coordinates import Handedness
from boltzkit.ensemble import EXCHANGED, MIRROR, draw
from boltzkit.errors import UserError
from boltzkit.flow import AugmentedFlow
from boltzkit.method import Model, evaluate, find_recipe, fit
from boltzkit.method.fit import build_problem, check_config
from boltzkit.method.one_handed import OneHanded
from boltzkit.molecule import find_molecule
from boltzkit.simulate import BatchedSimulation, TemperingConfig, simulate_batched

NAME = "alanine-dipeptide-cartesian"


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    out = tmp_path_factory.mktemp("data") / "set"
    config = BatchedSimulation(
        samples=320, equilibration=20, segment=10, validation=0.25, tempering=TemperingConfig(walkers=32)
    )
    simulate_batched(find_molecule(NAME), config, out, lambda text: None)
    other = config.model_copy(
        update={"split": "test", "validation": 0.0, "tempering": TemperingConfig(walkers=32, seed=1)}
    )
    simulate_batched(find_molecule(NAME), other, out, lambda text: None)
    return out


@pytest.fixture(scope="module")
def tiny(data):
    """Return the recipe at a scale of seconds."""
    words = (
        f"data.path={data}",
        "data.samples=200",
        "flow.blocks=2",
        "flow.layers=1",
        "flow.channels=8",
        "flow.heads=2",
        "training.steps=6",
        "training.batch=32",
        "training.checkpoint_every=3",
        "training.log_every=1",
        "training.validate_every=3",
        "training.ema=0.5",
        "objective.warm_up=2",
        "evaluation.samples=400",
        "evaluation.test_samples=200",
    )
    return lambda *changes: find_recipe("cartesian").with_overrides([*words, *changes])


def test_trained_judged_and_loaded(tiny, tmp_path):
    model, remarks = fit(tiny(), tmp_path / "a")
    assert remarks == []
    assert isinstance(model.flow, AugmentedFlow)
    found = evaluate(model)
    assert found.centred_log_z == found.reverse.log_z
    assert found.nll.value < evaluate(Model.untrained(tiny())).nll.value
    assert found.offset == pytest.approx(model.flow.published_offset)
    assert found.to_json()["mirror_images"] == found.mirror_images
    # Counted among the samples that are judged, and weightless there.
    drawn = draw(model.flow, model.target, 400, model.config.seed, subject=model.subject)
    wrong = Handedness.of(model.subject.molecule).wrong(drawn.x)
    assert found.mirror_images == pytest.approx(float(wrong.double().mean()))
    assert 0 < found.mirror_images < 1
    assert found.reverse.failures[MIRROR] == drawn.weights.failures[MIRROR] == int(wrong.sum())
    assert found.reverse.failures[EXCHANGED] == round(400 * found.exchanged)
    x, log_prob = model.sample(20)
    torch.testing.assert_close(model.log_prob(x), log_prob, atol=1e-2, rtol=0)


def test_a_stopped_run_goes_on_bit_for_bit(tiny, tmp_path):
    class Killed(Exception):
        pass

    def kill(line, steps):
        if line["step"] == 4:
            raise Killed

    whole, _ = fit(tiny(), tmp_path / "a")
    with pytest.raises(Killed):
        fit(tiny(), tmp_path / "b", kill)
    again, _ = fit(tiny(), tmp_path / "b")
    pairs = zip(whole.flow.parameters(), again.flow.parameters(), strict=True)
    assert all(torch.equal(a, b) for a, b in pairs)


def test_batches_are_turned_anew_and_energies_stay(tiny):
    problem = build_problem((tiny("objective.data=path_gradient"),), batched=False)
    one, again = problem.batch(0), problem.batch(0)
    assert torch.equal(one.x, again.x)
    energy, gradient = problem.target.target.energy_and_gradient(one.x.double())
    assert torch.allclose(energy.float(), one.energy, atol=0.02)
    noise = one.x.mean(-2, keepdim=True) / (22 * problem.flow.augmentation.sigma**2)
    rest = (one.gradient - noise).double()
    assert (rest - gradient).abs().max() < 0.02 * gradient.abs().max()
    # Control: the gradient of the data as they are stored is another one.
    assert (problem.batch.batches(0).gradient - gradient.float()).abs().max() > 0.1 * gradient.abs().max()
    per_epoch = 200 // 32
    first = problem.batch.batches(0).x
    assert not torch.allclose(problem.batch(per_epoch).x[:5], one.x[:5])
    assert first.shape == one.x.shape


@pytest.mark.parametrize("objective", ["path_gradient", "forward_kl"])
def test_objectives_with_dispersion_step(tiny, objective, tmp_path):
    model, _ = fit(tiny(f"objective.data={objective}", "training.steps=2"), tmp_path / objective)
    assert all(p.isfinite().all() for p in model.flow.parameters())


def test_mirror_images_weigh_nothing_and_stay_in_the_number():
    molecule = find_molecule(NAME)
    energy = molecule.energy()
    target = OneHanded(energy, Handedness.of(molecule, permutations=True))
    x = molecule.positions.float().repeat(4, 1, 1)
    x[1] = x[1] * torch.tensor([-1.0, 1.0, 1.0])
    found = target(x)
    assert found.isposinf().tolist() == [False, True, False, False]
    assert target.evaluations == 4
    torch.testing.assert_close(found[0], energy(x[:1])[0])
    # Control: the force field itself does not tell them apart.
    assert abs(float(energy(x[1:2]) - energy(x[:1]))) < 1e-3


def test_constrained_bonds_are_refused():
    config = find_recipe("cartesian").with_overrides(["target.molecule=alanine-hexapeptide"])
    with pytest.raises(UserError, match="constrained bonds, which leave Cartesian positions no volume"):
        Model.untrained(config)


def test_the_correction_changes_weights_and_no_likelihood(tiny):
    gaussian, chi = (Model.untrained(tiny(f"flow.correction={name}")) for name in ("gaussian", "chi"))
    x = gaussian.sample(20).x
    assert torch.equal(gaussian.log_prob(x), chi.log_prob(x))
    assert gaussian.flow.published_offset == chi.flow.published_offset


def test_the_scale_of_the_data_may_be_given(tiny):
    """It sets the noise of the centre, whose entropy published likelihoods contain."""
    usual, given = (Model.untrained(tiny(*changes)).flow for changes in ((), ("flow.scale=0.1",)))
    assert given.augmentation.sigma == pytest.approx(0.1 / 22**0.5)
    wider = usual.augmentation.sigma / given.augmentation.sigma
    assert wider > 1.1
    assert usual.published_offset - given.published_offset == pytest.approx(3 * math.log(wider))


def test_without_data_it_is_refused():
    config = find_recipe("cmt").with_overrides(["flow.kind=tarflow", "target.molecule=ACE-NME"])
    with pytest.raises(UserError, match="flows on internal coordinates"):
        check_config(config)


def test_weights_use_the_correction(tiny, tmp_path):
    model, _ = fit(tiny("training.steps=1"), tmp_path / "a")
    chi = Model.untrained(tiny("flow.correction=chi"))
    chi.flow.load_state_dict(model.flow.state_dict())
    one, other = (draw(m.flow, m.target, 50, 0) for m in (model, chi))
    assert torch.equal(one.x, other.x)
    squared = (one.x.double().mean(-2) ** 2).sum(-1) / model.flow.augmentation.sigma**2
    apart = other.log_prob.double() - one.log_prob.double()
    torch.testing.assert_close(apart, -torch.log(squared / 3), atol=1e-3, rtol=0)
