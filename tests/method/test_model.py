"""A model comes back from disk as it was trained, and one of several replicas is the right one."""

import shutil

import numpy as np
import pytest
import torch

from boltzkit.errors import UserError
from boltzkit.method import Model, fit, fit_side_by_side, load
from boltzkit.method.fit import build_problem, models_of
from boltzkit.randomness import generator
from boltzkit.training import TrainState, checkpoints, read_checkpoint, train


def points(model, n=200):
    return model.target.sample(n, generator(5, "points"))


def test_loading_gives_the_density_that_fit_returned(tiny, tmp_path):
    config = tiny("seed=3")
    trained, _ = fit(config, tmp_path / "a")
    loaded = load(tmp_path / "a")
    x = points(trained)
    assert loaded.config == config
    assert loaded.step == trained.step == 10
    assert torch.equal(loaded.log_prob(x), trained.log_prob(x))
    # The controls: training did something, and seeds matter.
    assert not torch.equal(loaded.log_prob(x), Model.untrained(config).log_prob(x))
    other, _ = fit(tiny("seed=4"), tmp_path / "b")
    assert not torch.equal(loaded.log_prob(x), other.log_prob(x))


def test_a_loaded_model_is_the_flow_of_the_training(tiny, tmp_path):
    """The same training kept in memory, in evaluation mode, has the same density."""
    config = tiny()
    fit(config, tmp_path / "a")
    state = train(build_problem((config,), batched=False), config.training)
    loaded = load(tmp_path / "a")
    x = points(loaded)
    with torch.no_grad():
        assert torch.equal(loaded.log_prob(x), state.flow.eval().log_prob(x.float()))


def test_averaged_weights_are_used_where_the_run_keeps_them(tiny, tmp_path):
    fit(tiny("training.ema=0.9"), tmp_path / "ema")
    model, plain = load(tmp_path / "ema"), fit(tiny(), tmp_path / "plain")[0]
    tensors, _ = read_checkpoint(checkpoints(tmp_path / "ema" / "checkpoints")[-1])
    for name, value in model.flow.state_dict().items():
        assert torch.equal(value, tensors[f"ema.{name}"])
    x = points(model)
    # The last weights are those of the run without an average, and not the average.
    for name, value in plain.flow.state_dict().items():
        assert torch.equal(value, tensors[f"modules.flow.{name}"])
    assert not torch.equal(model.log_prob(x), plain.log_prob(x))


def test_averaged_weights_side_by_side(tiny):
    averaged, plain = (
        fit_side_by_side([tiny("seed=1", *more), tiny("seed=2", *more)])
        for more in (["training.ema=0.9"], [])
    )
    x = points(plain[0])
    for a, b in zip(averaged, plain, strict=True):
        assert not torch.equal(a.log_prob(x), b.log_prob(x))


def test_replicas_are_split_in_order(tiny):
    """Every replica is another seed with another weight; each model equals the slice of its own replica."""
    configs = tuple(
        tiny(f"seed={seed}", "objective.dispersion=l1", f"objective.data_weight={weight}")
        for seed, weight in [(7, 0.1), (2, 1.0), (5, 0.5)]
    )
    problem = build_problem(configs, batched=True)
    state = train(problem, configs[0].training)
    models = models_of(state, configs)
    assert [m.config for m in models] == list(configs)
    assert [m.step for m in models] == [10, 10, 10]
    x = points(models[0]).float()
    with torch.no_grad():
        batched = state.flow.eval().log_prob(x.expand(3, -1, -1))
    for i, model in enumerate(models):
        torch.testing.assert_close(model.log_prob(x), batched[i])
        # The control: no other replica has this density.
        assert all(
            not torch.allclose(model.log_prob(x), batched[j], rtol=1e-3, atol=1e-3)
            for j in range(3)
            if j != i
        )


def test_a_start_side_by_side_is_the_start_of_each(tiny):
    configs = (tiny("seed=7"), tiny("seed=2"))
    problem = build_problem(configs, batched=True)
    models = models_of(TrainState.start(problem.flow, configs[0].training), configs)
    for model, config in zip(models, configs, strict=True):
        alone = Model.untrained(config).flow.state_dict()
        assert all(torch.equal(value, alone[name]) for name, value in model.flow.state_dict().items())


def test_training_side_by_side_goes_on_in_its_folder(tiny, tmp_path):
    configs = [tiny("seed=1"), tiny("seed=2")]
    first = fit_side_by_side(configs, tmp_path / "a")
    lines = []
    again = fit_side_by_side(configs, tmp_path / "a", lambda line, steps: lines.append(line))
    x = points(first[0])
    assert lines == []
    assert [m.step for m in again] == [10, 10]
    assert all(torch.equal(a.log_prob(x), b.log_prob(x)) for a, b in zip(first, again, strict=True))
    with pytest.raises(UserError, match="other settings"):
        fit_side_by_side([tiny("seed=1"), tiny("seed=3")], tmp_path / "a")


def test_samples_carry_their_density_and_follow_the_seed(tiny):
    model = fit_side_by_side([tiny()])[0]
    x, log_prob = model.sample(50, seed=1)
    torch.testing.assert_close(model.log_prob(x), log_prob, rtol=1e-4, atol=1e-4)
    assert torch.equal(x, model.sample(50, seed=1)[0])
    assert not torch.equal(x, model.sample(50, seed=2)[0])
    assert not any(p.requires_grad for p in model.flow.parameters())
    assert not model.flow.training


def test_data_from_a_file_equal_the_same_data_drawn(tiny, tmp_path):
    """Training on the stored samples of the target gives the density of training on drawn ones."""
    config = tiny()
    target = Model.untrained(config).target
    x = target.sample(60, generator(config.seed, "training data"))
    # More than data.samples: the rest of the file is not used.
    np.save(tmp_path / "x.npy", torch.cat([x, x + 1]).numpy())
    drawn = fit_side_by_side([config])[0]
    read = fit_side_by_side([tiny(f"data.path={tmp_path / 'x.npy'}")])[0]
    other = fit_side_by_side([tiny(f"data.path={tmp_path / 'x.npy'}", "data.samples=120")])[0]
    at = points(drawn)
    assert torch.equal(drawn.log_prob(at), read.log_prob(at))
    assert not torch.equal(drawn.log_prob(at), other.log_prob(at))


def test_missing_data_leave_no_folder_behind(tiny, tmp_path):
    with pytest.raises(UserError, match=r"missing\.npy"):
        fit(tiny(f"data.path={tmp_path / 'missing.npy'}"), tmp_path / "a")
    assert not (tmp_path / "a").exists()


def test_what_is_no_run_is_refused(tmp_path, tiny):
    with pytest.raises(UserError, match=r"is not a run folder: it has no config\.json\.$"):
        load(tmp_path)
    (tmp_path / "config.json").write_text(tiny().model_dump_json())
    with pytest.raises(UserError, match="has no checkpoint yet: let its training run on"):
        load(tmp_path)
    (tmp_path / "config.json").write_text('{"flow": {"layres": 2}}')
    with pytest.raises(UserError, match=r"there is no setting 'flow\.layres'\. Did you mean 'layers'"):
        load(tmp_path)


def test_a_run_begins_with_the_flow_of_another(tiny, tmp_path):
    first, _ = fit(tiny(), tmp_path / "a")
    x, start = points(first), f"start={tmp_path / 'a'}"
    assert torch.equal(Model.untrained(tiny(start, "seed=7")).log_prob(x), first.log_prob(x))
    longer, _ = fit(tiny(start, "seed=7"), tmp_path / "b")
    # It trained on, and differently from one that began anew or elsewhere.
    fresh, _ = fit(tiny("seed=7"), tmp_path / "c")
    assert not torch.equal(longer.log_prob(x), first.log_prob(x))
    assert not torch.equal(longer.log_prob(x), fresh.log_prob(x))
    assert -float(longer.log_prob(x).mean()) < -float(fresh.log_prob(x).mean())
    both = fit_side_by_side([tiny(start, "seed=7"), tiny("seed=7", f"start={tmp_path / 'c'}")])
    assert torch.equal(both[0].log_prob(x), longer.log_prob(x))
    assert not torch.equal(both[1].log_prob(x), longer.log_prob(x))
    # One of several is enough to be trained by itself.
    mixed = fit_side_by_side([tiny("seed=7"), tiny(start, "seed=7")])
    assert torch.equal(mixed[1].log_prob(x), longer.log_prob(x))
    # Once it has begun, it needs the other run no longer.
    shutil.rmtree(tmp_path / "a")
    again, _ = fit(tiny(start, "seed=7"), tmp_path / "b")
    assert torch.equal(again.log_prob(x), longer.log_prob(x))


def test_a_start_that_does_not_fit_is_refused(tiny, tmp_path):
    fit(tiny(), tmp_path / "a")
    for words in (["flow.hidden=[9,9]"], ["target.name=many-well"]):
        with pytest.raises(UserError, match="has another flow, molecule"):
            fit(tiny(f"start={tmp_path / 'a'}", *words), tmp_path / "b")
    with pytest.raises(UserError, match="There is no run folder"):
        fit(tiny(f"start={tmp_path / 'nowhere'}"), tmp_path / "b")
    for words, sentence in (
        (["annealing.pretraining=5"], "takes the place of pre-training"),
        (["importance.samples=100"], "begins with their proposal"),
    ):
        with pytest.raises(UserError, match=sentence):
            fit(tiny(f"start={tmp_path / 'a'}", *words), tmp_path / "b")
    assert not (tmp_path / "b" / "config.json").exists()
