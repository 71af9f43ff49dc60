"""The weighted sum: weights, warm-up, shared and separate batches, batches spread over processes."""

import math
from dataclasses import replace

import pytest
import torch

from boltzkit.errors import UserError
from boltzkit.flow import Flow
from boltzkit.objective import (
    Batch,
    ForwardKL,
    LogDispersion,
    Objective,
    PathGradientForwardKL,
    ReverseKL,
    warm_up,
)
from boltzkit.randomness import generator


class CountingFlow(Flow):
    """Counts how often its density is computed."""

    calls = 0

    def log_prob(self, x):
        self.calls += 1
        return super().log_prob(x)


@pytest.fixture
def flow(gaussian_flow):
    inner = gaussian_flow(0.3, 1.4)
    return CountingFlow(inner.base, inner.bijection)


def batch_of(n=12, seed=0, shift=0.0):
    x = shift + torch.randn(n, 1, generator=generator(seed, "batch"), dtype=torch.float64)
    return Batch(x, x[:, 0] ** 2 / 2, gradient=x)


def test_total_is_the_weighted_sum(flow):
    batch = batch_of()
    objective = Objective(ForwardKL(), LogDispersion(1.5), data_weight=0.3, dispersion_weight=2.0)
    loss = objective(flow, batch, step=0)
    log_prob = Flow.log_prob(flow, batch.x)
    assert loss.data.item() == pytest.approx(ForwardKL()(log_prob).item())
    assert loss.dispersion.item() == pytest.approx(LogDispersion(1.5)(log_prob, batch.energy).item())
    assert loss.total.item() == pytest.approx(0.3 * loss.data.item() + 2 * loss.dispersion.item())
    assert loss.left_out.item() == 0


def test_weights_reach_both_terms(flow):
    batch = batch_of()
    weights = torch.rand(12, generator=generator(0, "weights"), dtype=torch.float64)
    loss = Objective(ForwardKL(), LogDispersion(1.0))(flow, batch.replace(weights=weights), step=0)
    log_prob = Flow.log_prob(flow, batch.x)
    assert loss.data.item() == pytest.approx(ForwardKL()(log_prob, weights).item())
    assert loss.dispersion.item() == pytest.approx(LogDispersion(1.0)(log_prob, batch.energy, weights).item())


def test_each_term_may_stand_alone(flow):
    batch = batch_of()
    only_data = Objective(ForwardKL(), data_weight=0.5)(flow, batch, step=0)
    assert only_data.dispersion is None
    assert only_data.total.item() == pytest.approx(0.5 * only_data.data.item())
    only_dispersion = Objective(None, LogDispersion(2.0))(flow, batch, step=0)
    assert only_dispersion.data is None
    assert only_dispersion.total.item() == pytest.approx(only_dispersion.dispersion.item())
    with pytest.raises(UserError, match="needs a data term or a dispersion"):
        Objective(None, None)


def test_warm_up_ramp():
    assert [warm_up(step, 8) for step in (0, 4, 8, 100)] == pytest.approx([0.0, 0.5, 1.0, 1.0], abs=1e-15)
    assert warm_up(2, 8) == pytest.approx(0.5 * (1 - math.sqrt(0.5)))
    assert warm_up(0, 0) == 1.0
    assert warm_up(0, 8) == 0.0


@pytest.mark.parametrize(("step", "ramp"), [(0, 0.0), (5, 0.5), (10, 1.0), (99, 1.0)])
def test_dispersion_warms_up(flow, step, ramp):
    objective = Objective(ForwardKL(), LogDispersion(1.0), dispersion_weight=2.0, warm_up_steps=10)
    loss = objective(flow, batch_of(), step=step)
    assert (loss.total - loss.data).item() == pytest.approx(2 * ramp * loss.dispersion.item(), abs=1e-14)


def test_dispersion_alone_can_be_trained_from_the_first_step_of_its_warm_up(flow):
    loss = Objective(None, LogDispersion(1.0), warm_up_steps=10)(flow, batch_of(), step=0)
    assert loss.total.item() == 0.0
    loss.total.backward()
    assert flow.bijection.theta.grad.tolist() == [0.0, 0.0]


def test_infinite_dispersion_at_weight_zero_does_no_harm(flow):
    # A finite but huge energy overflows the third power: the term is infinite, and 0 · inf would be NaN.
    batch = batch_of()
    energy = batch.energy.clone()
    energy[0] = 1e200
    objective = Objective(ForwardKL(), LogDispersion(3.0), warm_up_steps=10)
    loss = objective(flow, batch.replace(energy=energy), step=0)
    assert loss.dispersion.isinf()
    loss.total.backward()
    assert torch.isfinite(flow.bijection.theta.grad).all()
    assert not torch.isfinite(objective(flow, batch.replace(energy=energy), step=1).total)


@pytest.mark.parametrize("bad", [math.inf, math.nan])
def test_bad_energies_are_counted_and_weightless(flow, bad):
    batch = batch_of()
    energy = batch.energy.clone()
    energy[:3] = bad
    loss = Objective(ForwardKL(), LogDispersion(1.0))(flow, batch.replace(energy=energy), step=0)
    assert loss.left_out.item() == 3
    rest = LogDispersion(1.0)(Flow.log_prob(flow, batch.x)[3:], batch.energy[3:])
    assert loss.dispersion.item() == pytest.approx(rest.item())
    loss.total.backward()
    assert torch.isfinite(flow.bijection.theta.grad).all()


def test_sharing_costs_one_pass(flow):
    objective = Objective(ForwardKL(), LogDispersion(1.0))
    shared = objective(flow, batch_of(), step=0)
    assert flow.calls == 1
    separate = objective(flow, batch_of(), step=0, reference=batch_of(seed=1, shift=1.0))
    assert flow.calls == 3
    assert separate.data.item() == pytest.approx(shared.data.item())
    assert separate.dispersion.item() != pytest.approx(shared.dispersion.item(), rel=1e-2)
    reference = batch_of(seed=1, shift=1.0)
    expected = LogDispersion(1.0)(Flow.log_prob(flow, reference.x), reference.energy)
    assert separate.dispersion.item() == pytest.approx(expected.item())


def test_reference_counts_what_it_leaves_out(flow):
    reference = batch_of(seed=1).replace(energy=torch.full((12,), math.nan, dtype=torch.float64))
    loss = Objective(ForwardKL(), LogDispersion(1.0))(flow, batch_of(), step=0, reference=reference)
    assert loss.left_out.item() == 12


def test_path_gradient_shares_its_pass_too(flow):
    loss = Objective(PathGradientForwardKL(), LogDispersion(2.0))(flow, batch_of(), step=0)
    usual = Objective(ForwardKL(), LogDispersion(2.0))(flow, batch_of(), step=0)
    assert flow.calls == 1
    assert loss.total.item() == pytest.approx(usual.total.item())
    with pytest.raises(UserError, match="energy gradients"):
        Objective(PathGradientForwardKL())(flow, batch_of().replace(gradient=None), step=0)


def test_reverse_kl_uses_the_log_prob_of_the_sampling_pass(flow):
    x, log_prob = flow.sample(10, generator(0, "model"))
    batch = Batch(x, x[:, 0] ** 2 / 2, log_prob=log_prob)
    loss = Objective(ReverseKL(), LogDispersion(2.0))(flow, batch, step=0)
    assert flow.calls == 0
    assert loss.data.item() == pytest.approx(ReverseKL()(log_prob, batch.energy).item())


def test_weights_per_replica(flow):
    parts = [batch_of(seed=0), batch_of(seed=1)]
    both = Batch(torch.stack([p.x for p in parts]), torch.stack([p.energy for p in parts]))
    weights = torch.tensor([0.2, 0.9], dtype=torch.float64)
    loss = Objective(ForwardKL(), LogDispersion(1.0), weights, 1 - weights)(flow, both, step=0)
    for i, part in enumerate(parts):
        alone = Objective(ForwardKL(), LogDispersion(1.0), weights[i], 1 - weights[i])(flow, part, step=0)
        assert loss.total[i].item() == pytest.approx(alone.total.item(), rel=1e-12)
        assert loss.left_out.shape == (2,)


def test_learned_centre_gets_its_gradient(flow):
    centre = torch.tensor(0.5, dtype=torch.float64, requires_grad=True)
    batch = batch_of()
    loss = Objective(None, LogDispersion(2.0))(flow, batch, step=1, centre=centre)
    loss.total.backward()
    f = -Flow.log_prob(flow, batch.x) - batch.energy
    assert centre.grad.item() == pytest.approx(-2 * (f - 0.5).mean().item())
    assert loss.mean is None


@pytest.mark.parametrize("warm_up_steps", [0, 4])
def test_learned_centre_waits_for_the_end_of_the_warm_up(flow, warm_up_steps):
    batch, centre = batch_of(), torch.tensor(0.5, dtype=torch.float64, requires_grad=True)
    objective = Objective(None, LogDispersion(1.5), warm_up_steps=warm_up_steps)
    f = -Flow.log_prob(flow, batch.x) - batch.energy
    for step in range(warm_up_steps + 1):
        loss = objective(flow, batch, step=step, centre=centre)
        assert loss.mean.item() == pytest.approx(f.mean().item())
        assert loss.total == objective(flow, batch, step=step).total
    after = objective(flow, batch, step=warm_up_steps + 1, centre=centre)
    assert after.mean is None
    assert after.total != loss.total


def over_ranks(values):
    """Sum over the batch and over the processes, which the leading axis stands for."""
    return values.sum(-1).sum(0, keepdim=True).expand(values.shape[0])


@pytest.mark.parametrize("dispersion", [LogDispersion(1.0), LogDispersion(3.0), LogDispersion.huber(0.3)])
@pytest.mark.parametrize("weighted", [False, True])
def test_a_batch_spread_over_two_processes_gives_the_loss_of_the_whole(flow, dispersion, weighted, gradient):
    whole = batch_of(12)
    if weighted:
        whole = whole.replace(weights=torch.rand(12, generator=generator(0, "w"), dtype=torch.float64))
    halves = Batch(
        whole.x.reshape(2, 6, 1),
        whole.energy.reshape(2, 6),
        weights=None if whole.weights is None else whole.weights.reshape(2, 6),
    )
    one = Objective(ForwardKL(), dispersion)(flow, whole, step=0).total

    def ranks(total):
        spread = replace(dispersion, total=total)
        return Objective(ForwardKL(total), spread)(flow, halves, step=0).total

    two = ranks(over_ranks)
    torch.testing.assert_close(two, one.expand(2), rtol=1e-12, atol=0)
    torch.testing.assert_close(gradient(two[0], flow), gradient(one, flow), rtol=1e-10, atol=1e-12)
    # Control: means of each half alone are something else.
    assert (ranks(lambda values: values.sum(-1)).mean() - one).abs() > 1e-3


def test_a_mixed_reference_has_one_centre_and_its_share(flow):
    data, reference = batch_of(), batch_of(30, seed=1, shift=3.0)
    objective = Objective(ForwardKL(), LogDispersion(2.0), reference_share=0.5)
    loss = objective(flow, data, step=0, reference=reference)
    values = [-Flow.log_prob(flow, b.x) - b.energy for b in (data, reference)]
    mean = 0.5 * (values[0].mean() + values[1].mean())
    spread = 0.5 * sum(((v - mean) ** 2).mean() for v in values)
    assert loss.dispersion.item() == pytest.approx(spread.item())
    # A centre for each part would not see the offset between them.
    apart = 0.5 * sum(v.var(unbiased=False) for v in values)
    assert spread.item() > 1.5 * apart.item()


def test_the_share_does_not_depend_on_sizes_or_on_samples_left_out(flow):
    data, reference = batch_of(), batch_of(30, seed=1, shift=3.0)
    objective = Objective(ForwardKL(), LogDispersion(1.0), reference_share=0.25)
    twice = Batch(data.x.repeat(2, 1), data.energy.repeat(2))
    value = objective(flow, data, step=0, reference=reference).dispersion
    assert objective(flow, twice, step=0, reference=reference).dispersion.item() == pytest.approx(
        value.item()
    )
    bad = Batch(torch.cat([data.x, data.x[:3]]), torch.cat([data.energy, torch.full((3,), torch.nan)]))
    loss = objective(flow, bad, step=0, reference=reference)
    assert loss.dispersion.item() == pytest.approx(value.item())
    assert loss.left_out.item() == 3
    other = Objective(ForwardKL(), LogDispersion(1.0), reference_share=0.5)
    assert other(flow, data, step=0, reference=reference).dispersion.item() != pytest.approx(value.item())
