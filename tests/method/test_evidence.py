"""What a judgement looks at: the same samples as `draw`, in chunks, without their positions."""

import json
import math

import numpy as np
import pytest
import torch

from boltzkit.data import About, Dataset, DatasetWriter
from boltzkit.energy.constants import BOLTZMANN
from boltzkit.ensemble import Observed, Tica, draw, observe_model
from boltzkit.errors import UserError
from boltzkit.flow import SplineFlowConfig
from boltzkit.method import EvaluationConfig, Model, MoleculeConfig, RunConfig, evaluate, gather, judge
from boltzkit.molecule import Backbone, find_molecule

NAME = "alanine-dipeptide"
TICA = Tica(torch.zeros(4).double(), torch.eye(4, 2).double(), (100.0, 10.0), 10.0, "by hand")


@pytest.fixture(scope="module")
def model() -> Model:
    config = RunConfig(
        target=MoleculeConfig(molecule=NAME),
        flow=SplineFlowConfig(pairs=1, hidden=(8,), bins=4),
        evaluation=EvaluationConfig(samples=3000, test_samples=10_000),
    )
    return Model.untrained(config)


@pytest.fixture(scope="module")
def data(model, tmp_path_factory) -> Dataset:
    """Samples of the untrained flow with their true energies: 40 trajectories of 100 frames."""
    folder = tmp_path_factory.mktemp("data") / "set"
    drawn = draw(model.flow, model.target, 4000, seed=5)
    about = About.of(find_molecule(NAME), 300.0, source={"protocol": "by hand"})
    columns = {
        "positions": drawn.x.numpy(),
        "energy": (drawn.energy * BOLTZMANN * 300.0).numpy(),
        "trajectory": np.repeat(np.arange(40), 100),
        "frame": np.tile(np.arange(100), 40),
    }
    with DatasetWriter(folder, about) as writer:
        writer.append("all", "test", columns)
    return Dataset.open(folder).split("test")


def test_samples_are_those_that_draw_gives(model):
    drawn = draw(model.flow, model.target, 250, seed=3, chunk=100)
    kept = observe_model(model.flow, model.target, 250, seed=3, observe=lambda x: {"x": x}, chunk=100)
    assert torch.equal(kept.observables["x"], drawn.x)
    assert torch.equal(kept.energy, drawn.energy)
    assert torch.equal(kept.weights.values, drawn.weights.values)


def test_a_dataset_is_read_with_its_energies_and_trajectories(model, data):
    before = model.target.evaluations
    evidence = gather(model, data, tica=TICA)
    assert model.target.evaluations - before == evidence.evaluations == 3000
    assert evidence.data is not None
    assert evidence.data.n == 4000
    assert len(evidence.data.block.unique()) == 40
    x = torch.from_numpy(data.positions(np.arange(4000)))
    angles = Backbone.of(find_molecule(NAME).topology).angles(x)
    torch.testing.assert_close(evidence.data.observables["angles"], angles)
    expected = torch.stack([angles[:, 0, 0].cos(), angles[:, 0, 0].sin()], 1)
    torch.testing.assert_close(evidence.data.observables["tica"], expected)
    some = gather(model, data, samples=10, test_samples=77)
    assert (some.data.n, some.model.n) == (77, 10)
    assert "tica" not in some.model.observables


def test_all_metrics_of_a_flow_on_its_own_samples(model, data):
    """The data are samples of the flow: every raw distance is what chance gives, and the NLL is the flow's entropy."""
    evidence = gather(model, data, tica=TICA)
    result = judge(model, evidence, transport=300)
    peptide = result.peptide
    assert peptide is not None
    for found in (peptide.ramachandran, peptide.tica):
        assert set(found) == {"raw", "reweighted"}
        assert (
            abs(found["raw"].value - found["raw"].floor)
            < 0.6 * found["raw"].floor + 6 * found["raw"].standard_error
        )
        assert found["reweighted"].value > found["raw"].high
    assert peptide.torus_w2["raw"].value == pytest.approx(peptide.torus_w2["raw"].floor, rel=0.3)
    assert set(peptide.cis) == {"ACE1-ALA2", "ALA2-NME3"}
    for shares in peptide.cis.values():
        assert shares["data"].value == pytest.approx(shares["model"].value, abs=0.06)
    # An untrained flow draws torsions evenly: a quarter has both bonds trans.
    assert peptide.trans.share["model"].value == pytest.approx(0.25, abs=0.05)
    # Given trans, its density is four times larger.
    assert peptide.trans.nll.value == pytest.approx(result.nll.value + math.log(0.25), abs=0.2)
    assert result.paper_entropy == pytest.approx(result.entropy.value + 2 * math.log(2 * math.pi))
    content = result.to_json()
    assert json.loads(json.dumps(content, allow_nan=False)) == content
    assert content["tica_fit"]["source"] == "by hand"


def test_trans_alone_is_what_remains_when_cis_is_removed(model, data):
    """The entropy given trans is that of weights restricted by hand, normalised by all samples drawn."""
    evidence = gather(model, data)
    trans = judge(model, evidence).peptide.trans
    kept = ~evidence.model.observables["cis"].any(1)
    log_w = evidence.model.weights.values[kept]
    share = torch.softmax(log_w, 0)
    log_z = float(torch.logsumexp(log_w, 0)) - math.log(evidence.model.n)
    assert trans.entropy.value == pytest.approx(float((share * evidence.model.energy[kept]).sum()) + log_z)
    in_data = ~evidence.data.observables["cis"].any(1)
    f = -(evidence.data.log_prob + evidence.data.energy)[in_data].mean()
    expected = float(f) + math.log(trans.share["model"].value) - log_z
    assert trans.gap.value == pytest.approx(expected)


def test_without_data_there_are_still_weights_and_bonds(model):
    result = evaluate(model, samples=500)
    assert result.nll is None
    assert result.ramachandran is None
    assert set(result.peptide.cis["ACE1-ALA2"]) == {"model", "reweighted"}
    assert result.entropy is not None


def test_biased_data_are_refused(model, data, tmp_path):
    about = About.of(find_molecule(NAME), 300.0, bias="seeded")
    with DatasetWriter(tmp_path / "biased", about) as writer:
        rows = np.arange(10)
        columns = {name: data.column(name, rows) for name in about.columns}
        writer.append("all", "test", columns)
    with pytest.raises(UserError, match="biased"):
        gather(model, Dataset.open(tmp_path / "biased").split("test"))


def test_progress_is_told(model, data):
    told = []
    gather(model, data, samples=30, test_samples=20, watch=lambda *words: told.append(words))
    assert told == [("test data", 20, 20), ("samples of the flow", 30, 30)]


def test_memory_does_not_grow_with_positions():
    """What is kept must not be views that hold whole chunks of positions alive."""

    def held(observe) -> int:
        chunks = ((x, x[:, 0, 0], x[:, 0, 1]) for x in (torch.rand(1000, 22, 3) for _ in range(20)))
        kept = Observed.gather(chunks, 20_000, observe)
        tensors = kept.energy, kept.log_prob, kept.block, *kept.observables.values()
        return sum(tensor.untyped_storage().nbytes() for tensor in tensors) // 20_000

    # Two doubles, a block and two floats each.
    assert held(lambda x: {"angles": x[:, :1, :2]}) == 32
    # The control: keeping positions is seen.
    assert held(lambda x: {"x": x}) == 24 + 22 * 3 * 4
