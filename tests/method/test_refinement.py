"""Learning from biased data in two stages: everything real, only small."""

import contextlib
import math

import numpy as np
import pytest
import torch

from boltzkit.cli import main
from boltzkit.data import About, DatasetWriter
from boltzkit.data.energies import PotentialEnergy
from boltzkit.energy.constants import BOLTZMANN
from boltzkit.ensemble import Ensemble
from boltzkit.errors import Interrupted, UserError
from boltzkit.method import fit, load
from boltzkit.method.fit import build_problem
from boltzkit.method.recipes import find_recipe
from boltzkit.method.refinement import proposal_run
from boltzkit.method.source import reference_source, training_data
from boltzkit.molecule import find_molecule
from boltzkit.simulate import MinimaSearch, SeededSimulation, simulate_seeded
from boltzkit.storage import read_json
from boltzkit.training import RunFolder, loop

NAME = "alanine-dipeptide"


@pytest.fixture(scope="module")
def biased_data(tmp_path_factory):
    """Short trajectories from two minima: 200 frames that say they are biased."""
    out = tmp_path_factory.mktemp("biased") / "data"
    search = MinimaSearch(walkers=8, sweeps=2, count=2)
    config = SeededSimulation(samples=200, repeats=1, segment=50, equilibration=0.02, search=search)
    simulate_seeded(find_molecule(NAME), config, out, lambda text: None)
    return out


TINY = (
    "data.samples=160",
    "flow.pairs=1",
    "flow.hidden=[8]",
    "flow.bins=4",
    "training.steps=6",
    "training.batch=16",
    "training.checkpoint_every=2",
    "training.log_every=1",
    "training.validate_every=2",
    "objective.warm_up=2",
    "importance.steps=4",
    "importance.samples=120",
    "importance.resampled=400",
    "importance.least_effective=0",
)


@pytest.fixture(scope="module")
def tiny(biased_data):
    """Return the recipe `biased` at a scale of seconds, changed by words like ``training.steps=20``."""
    return lambda *changes: find_recipe("biased").with_overrides(
        [f"data.path={biased_data}", *TINY, *changes]
    )


@pytest.fixture(scope="module")
def done(tiny, tmp_path_factory):
    """One run with what it told, shared by tests that only look."""
    out = tmp_path_factory.mktemp("runs") / "a"
    told = []
    model, remarks = fit(tiny(), out, tell=told.append)
    return out, model, remarks, told


def test_both_stages_run_and_are_kept(done):
    out, model, remarks, told = done
    assert {"proposal", "importance", "overlap.json", "config.json"} <= {path.name for path in out.iterdir()}
    assert [line.split(":")[0] for line in told if line.startswith("Stage")] == ["Stage 1", "Stage 2"]
    assert any("Overlap of the proposal" in line for line in told)
    assert any("heavy tail" in remark for remark in remarks)
    lines = RunFolder(out).metrics()
    assert lines[-1]["evaluations"] == 120
    assert "validation_nll" in lines[-1]
    assert "dispersion" in lines[-1]
    first = load(out / "proposal")
    assert first.config.objective.dispersion == "l1"
    assert first.config.objective.data_weight == 0.3
    assert first.step == 4
    changed = [
        not torch.equal(a, b) for a, b in zip(first.flow.parameters(), model.flow.parameters(), strict=True)
    ]
    assert any(changed)
    assert read_json(out / "overlap.json")["n"] == 120


def test_refinement_starts_from_the_proposal(tiny, done, tmp_path):
    proposal = done[0] / "proposal"
    config = tiny(f"importance.proposal={proposal}", "training.learning_rate=1e-12")
    model, _ = fit(config, tmp_path / "b")
    assert not (tmp_path / "b" / "proposal").exists()
    pairs = zip(load(proposal).flow.parameters(), model.flow.parameters(), strict=True)
    assert all(torch.allclose(a, b, atol=1e-6) for a, b in pairs)


def test_a_stopped_run_goes_on_bit_for_bit(tiny, done, tmp_path, monkeypatch):
    model, calls = done[1], {"n": 0}

    def stopping():
        calls["n"] += 1
        return calls["n"] == 7  # in the third step of the second stage

    with monkeypatch.context() as patched:
        patched.setattr(loop, "stop_requested", lambda: contextlib.nullcontext(stopping))
        with pytest.raises(Interrupted):
            fit(tiny(), tmp_path / "c")
    samples = (tmp_path / "c" / "importance" / "samples.npz").stat().st_mtime_ns
    again, _ = fit(tiny(), tmp_path / "c")
    assert (tmp_path / "c" / "importance" / "samples.npz").stat().st_mtime_ns == samples
    assert all(
        torch.equal(a, b) for a, b in zip(model.flow.parameters(), again.flow.parameters(), strict=True)
    )


def test_reference_batches_are_the_biased_data_with_their_unbiased_energies(tiny, biased_data):
    source = reference_source(tiny("reference.batch=10"))
    batch = source(0)
    assert batch.x.shape == (10, 22, 3)
    energy = find_molecule(NAME).energy(300.0)(batch.x.double())
    assert torch.allclose(batch.energy.double(), energy, atol=1e-2)
    assert reference_source(tiny("reference=null")) is None


def test_few_unbiased_samples_with_biased_data_in_the_dispersion(biased_data):
    """The variant without importance sampling: any data may be the reference of an ordinary run."""
    config = find_recipe("biased").with_overrides(
        [
            f"data.path={biased_data}",
            f"reference.path={biased_data}",
            "importance=null",
            "flow.pairs=1",
            "flow.hidden=[8]",
            "flow.bins=4",
            "training.batch=16",
            "data.samples=100",
        ]
    )
    problem = build_problem((config,), batched=False)
    loss = problem.objective(problem.flow, problem.batch(0), step=2_000, reference=problem.reference(0))
    assert loss.total.isfinite()
    assert problem.objective.reference_share == 0.5
    assert len(problem.reference(0).energy) == 8


@pytest.mark.parametrize(
    ("assignments", "message"),
    [
        (("objective.dispersion=none",), "A reference is for the dispersion"),
        (("objective.data=reverse_kl",), "Importance samples are learned by the forward KL"),
        (("importance.least_effective=119",), "hardly overlaps"),
        (("data.biased=false",), "is biased"),
    ],
)
def test_what_cannot_work_is_refused(tiny, tmp_path, assignments, message):
    with pytest.raises(UserError, match=message):
        fit(tiny(*assignments), tmp_path / "d")


def test_samples_of_a_hot_proposal_are_weighed_to_the_target(tiny, done, tmp_path):
    hot = tiny("importance=null", "reference=null", "objective.dispersion=none", "target.temperature=600")
    fit(hot, tmp_path / "hot")
    config = tiny(f"importance.proposal={tmp_path / 'hot'}", "training.steps=1")
    fit(config, tmp_path / "cold")
    samples = Ensemble.load(tmp_path / "cold" / "importance")
    expected = find_molecule(NAME).energy(300.0)(samples.x.double())
    torch.testing.assert_close(samples.energy, expected.double(), rtol=1e-3, atol=0.1)
    assert samples.subject.temperature == 300


def test_a_proposal_of_another_molecule_is_refused(tiny, done, tmp_path):
    config = tiny(f"importance.proposal={done[0] / 'proposal'}", "target.coordinates.bond_width=0.05")
    with pytest.raises(UserError, match="another molecule, force field or window"):
        fit(config, tmp_path / "x")


def test_a_proposal_of_another_architecture_is_refused(tiny, done, tmp_path):
    config = tiny(f"importance.proposal={done[0] / 'proposal'}", "flow.hidden=[9]")
    with pytest.raises(UserError, match="another architecture"):
        fit(config, tmp_path / "e")


def test_command_line(tmp_path, capsys, biased_data):
    settings = [f"data.path={biased_data}", *TINY, "training.steps=2", "importance.samples=50"]
    words = [word for setting in settings for word in ("--set", setting)]
    assert main(["train", "biased", "--out", str(tmp_path / "f"), *words]) == 0
    shown = capsys.readouterr()
    assert "effective of 50 samples" in shown.out + shown.err
    assert "Remark: " in shown.out


def test_the_papers_proposal_has_the_forward_kl_alone(tiny):
    first = proposal_run(tiny("importance.dispersion=none"))
    assert (first.objective.dispersion, first.objective.data_weight) == ("none", 1.0)
    assert (first.importance, first.reference) == (None, None)


def test_frames_with_a_known_bias_are_drawn_by_weight(tmp_path):
    molecule = find_molecule(NAME)
    generator = torch.Generator().manual_seed(0)
    positions = molecule.positions.float() + 0.002 * torch.randn(600, 22, 3, generator=generator)
    x = positions.numpy()
    # A bias of −kT log 3 on every other frame: they were seen three times too often.
    bias = np.where(np.arange(600) % 2 == 0, -math.log(3) * BOLTZMANN * 300, 0.0)
    about = About.of(molecule, 300.0, bias="a planted bias", optional=("bias",))
    with DatasetWriter(tmp_path / "data", about) as writer:
        columns = {
            "positions": x,
            "energy": PotentialEnergy(molecule)(x),
            "trajectory": np.zeros(600),
            "frame": np.arange(600),
            "bias": bias,
        }
        writer.append("all", "train", columns)
    words = [f"data.path={tmp_path / 'data'}", "data.samples=40000", "importance=null"]
    config = find_recipe("biased").with_overrides([*words, "data.weighted=true"])
    data = training_data(config, molecule.energy())
    favoured = float((data.rows % 2 == 0).double().mean())
    assert favoured == pytest.approx(0.25, abs=4 * math.sqrt(0.25 * 0.75 / 40_000))
    assert data.size == 40_000
    # Control: without weights every frame counts the same.
    plain = training_data(
        find_recipe("biased").with_overrides(words).with_overrides(["data.samples=600"]), None
    )
    assert plain.rows is None


def test_frames_without_weights_cannot_be_drawn_by_weight(tiny):
    config = tiny("importance=null", "data.weighted=true")
    with pytest.raises(UserError, match=r"cannot be drawn by weight.*reference\.path"):
        training_data(config, None)
