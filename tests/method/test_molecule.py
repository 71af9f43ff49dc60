"""A molecule through the whole line: data, training with LDR, resume, loading, sampling, reweighting."""

import json
import math
import shutil

import pytest
import torch

from boltzkit.data import Dataset, load_labelled
from boltzkit.errors import UserError
from boltzkit.flow import RealNVPConfig, SplineFlowConfig
from boltzkit.method import (
    DataConfig,
    EvaluationConfig,
    MoleculeConfig,
    ObjectiveConfig,
    RunConfig,
    build_problem,
    evaluate,
    find_recipe,
    fit,
    fit_side_by_side,
    load,
    source,
)
from boltzkit.molecule import find_molecule
from boltzkit.simulate import BatchedSimulation, TemperingConfig, simulate_batched
from boltzkit.training import TrainingConfig

NAME = "alanine-dipeptide"


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    out = tmp_path_factory.mktemp("data") / "set"
    tempering = TemperingConfig(walkers=64)
    config = BatchedSimulation(
        samples=640, equilibration=30, segment=10, validation=0.25, tempering=tempering
    )
    simulate_batched(find_molecule(NAME), config, out, lambda text: None)
    other = {
        "samples": 320,
        "validation": 0.0,
        "split": "test",
        "tempering": TemperingConfig(walkers=64, seed=1),
    }
    simulate_batched(find_molecule(NAME), config.model_copy(update=other), out, lambda text: None)
    return out


def config(path, **update):
    return RunConfig(
        target=MoleculeConfig(molecule=NAME),
        flow=SplineFlowConfig(pairs=2, hidden=(16, 16), bins=4),
        data=DataConfig(path=str(path), samples=400, validation_samples=100),
        objective=ObjectiveConfig(dispersion="l1", data_weight=0.5, warm_up=4),
        training=TrainingConfig(
            steps=12, batch=50, learning_rate=1e-3, log_every=3, validate_every=3, checkpoint_every=6
        ),
        evaluation=EvaluationConfig(samples=200),
    ).model_copy(update=update)


@pytest.fixture(scope="module")
def run(data, tmp_path_factory):
    out = tmp_path_factory.mktemp("runs") / "a"
    model, _ = fit(config(data), out)
    return out, model


def test_training_lowers_the_loss_and_is_validated(run):
    lines = [json.loads(line) for line in (run[0] / "metrics.jsonl").read_text().splitlines()]
    assert lines[-1]["validation_nll"] < lines[0]["validation_nll"]
    assert lines[-1]["validation_outside"] == 0


def test_validation_sees_the_weights_too(data, run):
    """The last line again, from the loaded model and the stored energies."""
    out, model = run
    line = json.loads((out / "metrics.jsonl").read_text().splitlines()[-1])
    split = Dataset.open(data).split("validation")
    labelled = load_labelled(split, 300.0, 100, seed=0)
    f = -model.log_prob(labelled.x).double() - labelled.energy
    assert line["validation_dispersion"] == pytest.approx(float((f - f.mean()).abs().mean()), rel=1e-4)
    ess = 1 / (torch.exp(f - f.max()).mean() * torch.exp(f.max() - f).mean())
    assert line["validation_forward_ess"] == pytest.approx(float(ess), rel=1e-2)
    # The control: the training batch, on which the objective is taken, has another dispersion.
    assert line["validation_dispersion"] != pytest.approx(line["dispersion"], rel=1e-4)


def test_a_part_of_a_large_dataset_is_drawn_and_all_of_it_is_read_in_windows(data, monkeypatch):
    monkeypatch.setattr(source, "_IN_MEMORY", 200)
    batches = {}
    for samples in (150, 300, 480):
        part = config(data, data=DataConfig(path=str(data), samples=samples, validation_samples=10))
        batches[samples] = build_problem((part,), batched=False).batch
    assert [type(b).__name__ for b in batches.values()] == ["EpochBatches", "EpochBatches", "StoredBatches"]
    assert batches[300].data.size == 300


def test_a_loaded_model_is_the_trained_one(run):
    out, model = run
    again = load(out)
    x, log_prob = again.sample(50, seed=3)
    assert x.shape == (50, 22, 3)
    assert torch.equal(model.sample(50, seed=3).x, x)
    # Float32 positions lose digits of stiff bonds: the same density within rounding.
    assert (again.log_prob(x) - log_prob).abs().median() < 0.05


def test_samples_are_l_alanine_and_reweighted(run):
    _, model = run
    evaluation = evaluate(model)
    assert evaluation.nll is not None
    assert evaluation.nll.n == 640
    assert evaluation.paper_nll == pytest.approx(evaluation.nll.value + 3.6758, abs=1e-3)
    turned = math.log(8 * math.pi**2) - 1.5 * math.log(22)
    assert evaluation.centred_log_z == pytest.approx(evaluation.reverse.log_z + turned)
    assert evaluation.reverse.n == 200
    assert set(evaluation.ramachandran) == {"raw", "reweighted"}
    # Stored energies cost nothing: only the flow's own samples were evaluated.
    assert evaluation.evaluations == 200
    json.dumps(evaluation.to_json())
    coordinates = find_molecule(NAME).internal_coordinates()
    assert coordinates.support(model.sample(100).x.double()).n_outside == 0


def test_stopping_and_going_on_is_the_same_run(data, run, tmp_path):
    class Stopped(Exception):
        pass

    def stop(line, steps):
        if line["step"] >= 9:
            raise Stopped

    with pytest.raises(Stopped):
        fit(config(data), tmp_path / "b", stop)
    model, _ = fit(config(data), tmp_path / "b")
    for name, value in run[1].flow.state_dict().items():
        assert torch.equal(value, model.flow.state_dict()[name])


def test_seeds_train_one_by_one(data, tmp_path):
    configs = [config(data, seed=seed) for seed in (0, 1)]
    models = fit_side_by_side(configs, tmp_path / "both")
    assert [model.config.seed for model in models] == [0, 1]
    assert not torch.equal(models[0].sample(5).x, models[1].sample(5).x)


def test_without_data_there_is_advice(data):
    lost = config(data, data=DataConfig(samples=10))
    with pytest.raises(UserError, match="make data with boltzkit simulate"):
        fit(lost, data.parent / "none")
    wrong = config(data, target=MoleculeConfig(molecule="alanine-dipeptide-cartesian"))
    with pytest.raises(UserError, match="holds alanine-dipeptide"):
        fit(wrong, data.parent / "none")
    hot = config(data, target=MoleculeConfig(molecule=NAME, temperature=400.0))
    with pytest.raises(UserError, match="sampled at 300 K"):
        fit(hot, data.parent / "none")


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (
            {"target": {"molecule": NAME, "temprature": 300}},
            "there is no setting 'target.temprature'.*temperature",
        ),
        ({"flow": {"kind": "spline", "layers": 3}}, "there is no setting 'flow.layers'"),
        ({"flow": {"layerz": 3, "kind": "realnvp"}}, "there is no setting 'flow.layerz'.*layers"),
        ({"target": {"molecule": NAME, "temperature": -1}}, "target.temperature = -1"),
    ],
)
def test_a_misspelled_setting_of_either_kind_is_found(content, sentence):
    with pytest.raises(UserError, match=sentence):
        RunConfig.parse(content)


def test_a_molecule_needs_a_spline_flow(data):
    with pytest.raises(UserError, match=r"flow\.kind to spline or tarflow"):
        fit(config(data, flow=RealNVPConfig()), data.parent / "none")


def test_the_recipe_needs_only_a_dataset(data, tmp_path):
    overrides = [
        "flow.pairs=1",
        "flow.hidden=[8]",
        "training.steps=2",
        "training.batch=20",
        f"data.path={data}",
    ]
    model, _ = fit(find_recipe("unbiased").with_overrides(overrides), tmp_path / "a")
    assert model.sample(4).log_prob.isfinite().all()


def test_a_run_of_a_molecule_whose_files_changed_is_refused(run, data, tmp_path):
    """The hash of the molecule is kept beside the run: another force field under the same name is another target."""
    out, model = run
    copy = shutil.copytree(out, tmp_path / "copy")
    assert load(copy).step == model.step
    path = copy / "provenance.json"
    stored = json.loads(path.read_text())
    assert stored["molecule"] == find_molecule(NAME).hash
    path.write_text(json.dumps(stored | {"molecule": find_molecule("alanine-dipeptide-cartesian").hash}))
    with pytest.raises(UserError, match="trained for another molecule"):
        load(copy)
    with pytest.raises(UserError, match="trained for another molecule"):
        fit(config(data), copy)
