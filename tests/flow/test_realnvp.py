"""RealNVP: size, start, replicas, batch statistics, and the two passes of a trained flow."""

import pytest
import torch

from boltzkit.energy import GaussianMixture
from boltzkit.errors import UserError
from boltzkit.flow import RealNVPConfig, StandardNormal, StudentT, build_realnvp
from boltzkit.objective import ForwardKL
from boltzkit.randomness import generator

SMALL = RealNVPConfig(layers=4, hidden=(16, 16))


def points(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(*shape, generator=generator(0, "points"), dtype=torch.float64).to(dtype)


def test_parameter_count_of_the_paper():
    flow = build_realnvp(RealNVPConfig(), 2, (0,), batched=False)
    assert sum(parameter.numel() for parameter in flow.parameters()) == 403_230


@pytest.mark.parametrize("dim", [2, 3, 5])
@pytest.mark.parametrize("training", [True, False])
def test_starts_as_the_identity(dim, training):
    flow = build_realnvp(SMALL, dim, (0,), batched=False).train(training)
    z = points(50, dim)
    for map_ in (flow.bijection.transform, flow.bijection.inverse):
        value, log_det = map_(z)
        assert torch.equal(value, z)
        assert (log_det == 0).all()
    torch.testing.assert_close(flow.log_prob(z), StandardNormal(dim).log_prob(z))


def test_every_dim_is_changed(randomise):
    flow = randomise(build_realnvp(SMALL, 5, (0,), batched=False))
    z = points(20, 5, dtype=torch.float64)
    assert ((flow.bijection.transform(z)[0] - z).abs().amax(0) > 1e-3).all()


def test_base_by_name():
    assert isinstance(build_realnvp(SMALL, 2, (0,), batched=False).base, StandardNormal)
    heavy = build_realnvp(RealNVPConfig(layers=2, hidden=(4, 4), base="student-t"), 2, (0,), batched=False)
    assert isinstance(heavy.base, StudentT)
    assert torch.isfinite(heavy.sample(100, generator(0, "heavy")).log_prob).all()


def test_one_dimension_is_refused_in_one_sentence():
    with pytest.raises(UserError, match="at least two dims"):
        build_realnvp(SMALL, 1, (0,), batched=False)


@pytest.mark.parametrize("bad", [{"layers": 0}, {"hidden": ()}, {"hidden": (8, 0)}])
def test_impossible_sizes_are_refused(bad):
    with pytest.raises(UserError, match=next(iter(bad))):
        RealNVPConfig.parse(bad)


@pytest.mark.parametrize("statistics", ["batch", "running"])
@pytest.mark.parametrize("training", [True, False])
def test_replica_equals_the_flow_of_its_seed(statistics, training, randomise):
    config = SMALL.model_copy(update={"statistics": statistics})
    seeds = (3, 7, 11)
    together = randomise(build_realnvp(config, 3, seeds, batched=True)).train(training)
    x = points(len(seeds), 40, 3, dtype=torch.float64)
    content = together.state_dict()
    started = build_realnvp(config, 3, seeds, batched=True).state_dict()
    log_prob = together.log_prob(x)
    sampled, log_det = together.bijection.transform(x)
    for replica, seed in enumerate(seeds):
        alone = build_realnvp(config, 3, (seed,), batched=False)
        # The start of a replica is that of its seed ...
        for name, value in alone.state_dict().items():
            assert torch.equal(value, started[name][replica]), name
        # ... and with the same parameters it is the same map.
        alone.double().load_state_dict({name: value[replica] for name, value in content.items()})
        alone.train(training)
        torch.testing.assert_close(alone.log_prob(x[replica]), log_prob[replica])
        value, alone_log_det = alone.bijection.transform(x[replica])
        torch.testing.assert_close(value, sampled[replica])
        torch.testing.assert_close(alone_log_det, log_det[replica])
        # Control: another replica's parameters give another density.
        other = (replica + 1) % len(seeds)
        assert (alone.log_prob(x[other]) - log_prob[other]).abs().max() > 1e-3


def test_seeds_matter():
    a, b = (build_realnvp(SMALL, 2, (seed,), batched=False) for seed in (0, 1))
    assert not any(
        torch.equal(x.conditioner.first.weight, y.conditioner.first.weight)
        for x, y in zip(a.bijection.links, b.bijection.links, strict=True)
    )


def test_samples_come_with_their_density(randomise):
    flow = randomise(build_realnvp(SMALL, 3, (0, 1), batched=True))
    x, log_prob = flow.sample(30, generator(0, "samples"))
    assert x.shape == (2, 30, 3)
    torch.testing.assert_close(flow.log_prob(x), log_prob, atol=1e-9, rtol=0)
    assert torch.equal(x, flow.sample(30, generator(0, "samples")).x)
    assert not torch.equal(x, flow.sample(30, generator(1, "samples")).x)


def test_evaluating_restores_the_mode():
    flow = build_realnvp(SMALL, 2, (0,), batched=False).train()
    with flow.evaluating() as same:
        assert same is flow
        assert not flow.bijection.training
    assert flow.training
    assert flow.bijection.training
    with pytest.raises(UserError, match=r"shape \(2,\).*\(3, 7\)"), flow.evaluating():
        flow.log_prob(points(3, 7))
    assert flow.bijection.training
    with flow.eval().evaluating():
        pass
    assert not flow.bijection.training


@pytest.mark.parametrize("statistics", ["running", "batch"])
def test_running_statistics_make_training_invertible(statistics, randomise):
    config = SMALL.model_copy(update={"statistics": statistics})
    flow = randomise(build_realnvp(config, 2, (0,), batched=False)).float().train()
    x = points(200, 2)
    z, there = flow.bijection.inverse(x)
    with flow.evaluating():
        back, log_det = flow.bijection.transform(z)
    error = max((back - x).abs().max().item(), (there + log_det).abs().max().item())
    # Control: with batch statistics the evaluated map is another one.
    assert error <= 1e-5 if statistics == "running" else error > 1e-2


@pytest.mark.parametrize("statistics", ["running", "batch"])
def test_running_statistics_follow_the_data(statistics):
    config = SMALL.model_copy(update={"statistics": statistics})
    flow = build_realnvp(config, 2, (0,), batched=False).train()
    conditioner = flow.bijection.links[-1].conditioner
    x = points(500, 2)
    # The last of four layers is conditioned by the second half; untrained layers before it change nothing.
    linear = conditioner.linears[0]
    hidden = linear.weight() @ torch.tanh(conditioner.first(x[:, 1:].T)) + linear.bias
    for _ in range(2000):  # the slow average forgets its start only after a thousand updates
        flow.log_prob(x)
    norm = conditioner.norms[0]
    torch.testing.assert_close(norm.running_mean, hidden.mean(-1, keepdim=True), atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(norm.running_var, hidden.var(-1, keepdim=True), atol=1e-4, rtol=1e-3)
    before = norm.running_mean.clone()
    flow.eval().log_prob(10 * x)
    assert torch.equal(norm.running_mean, before)


@pytest.fixture(scope="module")
def trained():
    target = GaussianMixture.hypercube(2, 0.5)
    flow = build_realnvp(RealNVPConfig(layers=6, hidden=(32, 32)), 2, (0,), batched=False).train()
    data = target.sample(2000, generator(0, "data")).float()
    optimiser = torch.optim.Adam(flow.parameters(), lr=2e-3)
    for step in range(300):
        pick = torch.randint(len(data), (200,), generator=generator(0, "pick", step))
        optimiser.zero_grad()
        ForwardKL()(flow.log_prob(data[pick])).backward()
        optimiser.step()
    return flow.eval().requires_grad_(False), data


def test_trained_flow_has_learned(trained):
    flow, data = trained
    start = build_realnvp(RealNVPConfig(layers=6, hidden=(32, 32)), 2, (0,), batched=False).eval()
    assert flow.log_prob(data).mean() > start.log_prob(data).mean() + 0.1


def test_trained_flow_gives_one_density_in_both_passes(trained):
    flow, _ = trained
    x, log_prob = flow.sample(20_000, generator(1, "samples"))
    error = (flow.log_prob(x) - log_prob).abs()
    assert error.median() <= 1e-3
    assert int((error > 0.1).sum()) <= 10
    # Control: the check sees a density that is wrong by one per cent.
    assert (flow.log_prob(1.01 * x) - log_prob).abs().median() > 1e-3
