"""One step: learning rate, averages, clipping, and failures that stay where they happen."""

import math

import pytest
import torch

from boltzkit.objective import ForwardKL, LogDispersion, Objective
from boltzkit.training import LearnedCentre, TrainingConfig, TrainState, train_step
from boltzkit.training.optimiser import learning_rate

HYBRID = Objective(ForwardKL(), LogDispersion(1.0))


def advance(state, objective, config, batches, steps):
    for _ in range(steps):
        train_step(state, objective, config, batches(state.step))


def copies(state):
    return {name: value.detach().clone() for name, value in state.tensors().items()}


def assert_replica_equal(one, other, replica):
    """Compare one replica's part of two states, bit for bit; the optimiser's step has no replica axis."""
    for name, value in one.items():
        if not name.endswith(".step"):
            assert torch.equal(value[replica], other[name][replica]), name


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"schedule": "constant"}, {0: 1.0, 50: 1.0, 99: 1.0}),
        ({"schedule": "cosine"}, {0: 1.0, 25: 0.5 * (1 + math.sqrt(0.5)), 50: 0.5, 100: 0.0}),
        ({"schedule": "constant", "warm_up": 10}, {0: 0.1, 4: 0.5, 9: 1.0, 10: 1.0}),
        ({"schedule": "cosine", "warm_up": 10}, {4: 0.25 * (1 + math.cos(0.04 * math.pi)), 50: 0.5}),
    ],
)
def test_learning_rate(settings, expected):
    config = TrainingConfig(steps=100, learning_rate=1.0, **settings)
    assert {step: learning_rate(config, step) for step in expected} == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("optimiser", ["adam", "adamw"])
def test_steps_are_those_of_torch(optimiser, tiny_flow, batches, is_determined):
    config = TrainingConfig(
        steps=10, optimiser=optimiser, learning_rate=0.01, weight_decay=0.1, betas=(0.8, 0.9), warm_up=3
    )
    state, source = TrainState.start(tiny_flow(0), config), batches()
    advance(state, Objective(ForwardKL()), config, source, 6)
    flow = tiny_flow(0).train()
    kind = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW}[optimiser]
    plain = kind(flow.parameters(), weight_decay=0.1, betas=(0.8, 0.9))
    for step in range(6):
        plain.param_groups[0]["lr"] = learning_rate(config, step)
        plain.zero_grad()
        (-flow.log_prob(source(step).x).mean()).backward()
        plain.step()
    for name, value in flow.state_dict().items():
        if is_determined(name):
            torch.testing.assert_close(state.flow.state_dict()[name], value, rtol=1e-3, atol=2e-5)


def test_moving_average(tiny_flow, batches):
    config = TrainingConfig(steps=10, learning_rate=0.01, ema=0.8)
    state, source = TrainState.start(tiny_flow(0), config), batches()
    average = {name: value.clone() for name, value in state.flow.state_dict().items()}
    for _ in range(5):
        train_step(state, HYBRID, config, source(state.step))
        now = state.flow.state_dict()
        average = {name: 0.8 * value + 0.2 * now[name] for name, value in average.items()}
    for name, value in average.items():
        torch.testing.assert_close(state.ema[name], value, rtol=1e-5, atol=1e-7)
    # Control: the average lags behind the weights.
    assert max(float((state.ema[k] - v).abs().max()) for k, v in state.flow.state_dict().items()) > 1e-3


def test_no_average_unless_asked_for(tiny_flow):
    assert TrainState.start(tiny_flow(0), TrainingConfig()).ema == {}


def test_clipping_is_per_replica(tiny_flow, batches):
    objective = Objective(ForwardKL(), data_weight=torch.tensor([100.0, 0.01]))
    gradients = {}
    for clip in (None, 1.0):
        config = TrainingConfig(steps=10, clip=clip)
        state = TrainState.start(tiny_flow(0, 1), config)
        _, info = train_step(state, objective, config, batches(2)(0))
        # Batch statistics undo the bias before them, which has no gradient.
        parts = [p.grad.flatten(1) for p in state.flow.parameters() if p.grad is not None]
        gradients[clip] = torch.cat(parts, dim=1)
        # The norm that is reported is the one before clipping.
        torch.testing.assert_close(info.gradient_norm, gradients[None].norm(dim=1))
    assert gradients[None][0].norm() > 1.0 > gradients[None][1].norm()
    torch.testing.assert_close(gradients[1.0][0], gradients[None][0] / gradients[None][0].norm())
    assert torch.equal(gradients[1.0][1], gradients[None][1])


def without_energies(batch):
    energy = batch.energy.clone()
    energy[0] = math.nan
    return batch.replace(energy=energy)


def without_coordinates(batch):
    x = batch.x.clone()
    x[0, 3] = math.nan
    return batch.replace(x=x)


@pytest.mark.parametrize("spoil", [without_energies, without_coordinates])
@pytest.mark.parametrize("at", [0, 3])
def test_a_failed_replica_is_counted_and_the_others_go_on(spoil, at, tiny_flow, batches):
    config = TrainingConfig(steps=10, learning_rate=0.01, ema=0.9, clip=5.0)
    source = batches(2)
    clean, spoilt = (TrainState.start(tiny_flow(0, 1), config) for _ in range(2))
    advance(clean, HYBRID, config, source, 6)
    advance(spoilt, HYBRID, config, source, at)
    before = copies(spoilt)
    _, info = train_step(spoilt, HYBRID, config, spoil(source(at)))
    assert info.failed.tolist() == [True, False]
    assert spoilt.failed.tolist() == [1, 0]
    assert spoilt.failed_in_a_row.tolist() == [1, 0]
    # The failed replica is where it was: weights, statistics, moments and averages.
    after = copies(spoilt)
    names = [name for name in before if not name.startswith("counts.")]
    assert_replica_equal({name: before[name] for name in names}, after, 0)
    advance(spoilt, HYBRID, config, source, 5 - at)
    assert spoilt.failed.tolist() == [1, 0]
    assert spoilt.failed_in_a_row.tolist() == [0, 0]
    tensors = copies(spoilt)
    assert_replica_equal(copies(clean), tensors, 1)
    # Control: the failed replica did lose a step, and came back.
    assert not torch.equal(tensors["modules.flow.bijection.links.0.conditioner.last.bias"][0], torch.zeros(2))
    assert all(bool(torch.isfinite(value).all()) for value in tensors.values())
    with pytest.raises(AssertionError):
        assert_replica_equal(copies(clean), tensors, 0)


def test_a_single_flow_stays_where_it_was(tiny_flow, batches):
    config = TrainingConfig(steps=10, learning_rate=0.01)
    state, source = TrainState.start(tiny_flow(0), config), batches()
    advance(state, HYBRID, config, source, 2)
    before = copies(state)
    bad = source(2).replace(x=torch.full((16, 2), math.nan))
    train_step(state, HYBRID, config, bad)
    assert state.failed.item() == 1
    assert state.step == 3
    for name, value in copies(state).items():
        if not name.startswith("counts."):
            assert torch.equal(value, before[name]), name


def test_left_out_samples_are_counted_per_replica(tiny_flow, batches):
    config = TrainingConfig(steps=10)
    state, source = TrainState.start(tiny_flow(0, 1), config), batches(2)
    energy = source(0).energy.clone()
    energy[1, :5] = math.inf
    for _ in range(2):
        _, info = train_step(state, HYBRID, config, source(0).replace(energy=energy))
    assert not info.failed.any()
    assert state.left_out.tolist() == [0, 10]


@pytest.mark.parametrize("seeds", [(0,), (0, 1)])
def test_learned_centre_follows_the_mean(seeds, tiny_flow, batches):
    config = TrainingConfig(steps=300, learning_rate=0.05, clip=100.0)
    replicas = (2,) if len(seeds) > 1 else ()
    state = TrainState.start(tiny_flow(*seeds), config, LearnedCentre(replicas))
    source = batches(replicas[0] if replicas else None)
    batch = source(0)
    batch = batch.replace(energy=batch.energy + 3.0)
    # At p = 2 the best centre is the mean.
    for _ in range(config.steps):
        train_step(state, Objective(None, LogDispersion(2.0)), config, batch)
    centre = state.centre
    assert centre.shape == replicas
    with torch.no_grad():
        mean = (-state.flow.train().log_prob(batch.x) - batch.energy).mean(-1)
    assert (mean < -0.5).all()
    torch.testing.assert_close(centre.detach(), mean, atol=0.1, rtol=0)


def test_learned_centre_begins_where_the_mean_is(tiny_flow, batches):
    config = TrainingConfig(steps=100, learning_rate=1e-3)
    state = TrainState.start(tiny_flow(0, 1), config, LearnedCentre((2,)))
    batch = batches(2)(0)
    batch = batch.replace(energy=batch.energy - 1e5)  # far from the zero where it stands before
    objective = Objective(ForwardKL(), LogDispersion(1.0), warm_up_steps=3)
    apart = []
    for _ in range(12):
        with torch.no_grad():
            mean = (-state.flow.train().log_prob(batch.x) - batch.energy).mean(-1)
        train_step(state, objective, config, batch)
        apart.append((state.centre - mean).abs().max().item())
    assert max(apart) < 2  # nats
    # What a step without a finite mean says of its replica is nothing.
    before = state.centre.detach().clone()
    state.begin_centre(torch.tensor([math.nan, 7.0]))
    assert state.centre.tolist() == [before[0].item(), pytest.approx(7.0)]
