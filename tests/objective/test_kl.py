"""Forward and reverse KL on Gaussians: value and gradient against closed forms, and what is left out."""

import math

import pytest
import torch

from boltzkit.energy import Harmonic, Target
from boltzkit.flow import StandardNormal
from boltzkit.objective import ForwardKL, LogDispersion, ReverseKL, draw_batch
from boltzkit.randomness import generator

LOG_2PI = math.log(2 * math.pi)
PAIRS = [(0.0, 1.0), (0.7, 1.0), (0.0, 0.6), (-0.4, 1.8)]


class TwoPoints(StandardNormal):
    """The two-point Gauss–Hermite rule, z = ±1 with equal weights: exact for polynomials up to degree 3."""

    def sample(self, shape, generator):
        signs = torch.arange(math.prod(shape), dtype=torch.float64) % 2 * 2 - 1
        return signs.reshape(*shape, 1).expand(*shape, self.dim)


@pytest.mark.parametrize(("mean", "scale"), PAIRS)
def test_forward_kl_on_gaussians(mean, scale, gaussian_flow, gauss_hermite, gradient):
    flow = gaussian_flow(mean, scale)
    x, weights = gauss_hermite()
    loss = ForwardKL()(flow.log_prob(x), weights)
    assert loss.item() == pytest.approx(
        0.5 * LOG_2PI + math.log(scale) + (1 + mean**2) / (2 * scale**2), abs=1e-12
    )
    exact = [mean / scale**2, 1 - (1 + mean**2) / scale**2]
    assert gradient(loss, flow).tolist() == pytest.approx(exact, abs=1e-11)


@pytest.mark.parametrize(("mean", "scale"), PAIRS)
def test_reverse_kl_on_gaussians(mean, scale, gradient, gaussian_flow):
    flow = gaussian_flow(mean, scale)
    flow.base = TwoPoints(1)
    batch = draw_batch(flow, Harmonic(torch.eye(1)), 2, generator(0, "unused"))
    loss = ReverseKL()(batch.log_prob, batch.energy)
    exact = -0.5 * LOG_2PI - math.log(scale) - 0.5 + (mean**2 + scale**2) / 2
    assert loss.item() == pytest.approx(exact, abs=1e-12)
    assert gradient(loss, flow).tolist() == pytest.approx([mean, scale**2 - 1], abs=1e-12)


def test_reverse_kl_by_sampling(gaussian_flow):
    flow, target = gaussian_flow(0.5, 1.3), Harmonic(torch.eye(1))
    n = 20_000
    batch = draw_batch(flow, target, n, generator(0, "reverse"))
    assert target.evaluations == n
    exact = -0.5 * LOG_2PI - math.log(1.3) - 0.5 + (0.25 + 1.69) / 2
    error = (batch.log_prob + batch.energy).std().item() / math.sqrt(n)
    assert abs(ReverseKL()(batch.log_prob, batch.energy).item() - exact) < 4 * error
    # Control: the estimate is sharp enough to see a scale that is wrong by five per cent.
    wrong = -0.5 * LOG_2PI - math.log(1.3 * 1.05) - 0.5 + (0.25 + (1.3 * 1.05) ** 2) / 2
    assert abs(ReverseKL()(batch.log_prob, batch.energy).item() - wrong) > 4 * error


def test_integer_weights_are_repetitions():
    log_prob = torch.tensor([-1.0, -2.5, -0.3])
    repeated = torch.tensor([-1.0, -1.0, -1.0, -2.5, -0.3, -0.3])
    assert torch.allclose(ForwardKL()(log_prob, torch.tensor([3.0, 1.0, 2.0])), ForwardKL()(repeated))
    assert torch.allclose(ForwardKL()(log_prob, torch.tensor([3e-5, 1e-5, 2e-5])), ForwardKL()(repeated))


def test_forward_kl_leaves_out_what_lies_outside():
    log_prob = torch.tensor([-1.0, -math.inf, -3.0], requires_grad=True)
    loss = ForwardKL()(log_prob)
    loss.backward()
    assert loss.item() == 2.0
    assert log_prob.grad.tolist() == [-0.5, 0.0, -0.5]


def test_nan_log_prob_is_a_failure():
    assert ForwardKL()(torch.tensor([-1.0, math.nan])).isnan()
    assert ReverseKL()(torch.tensor([-1.0, math.nan]), torch.tensor([1.0, 1.0])).isnan()


def test_nothing_left_is_a_failure():
    assert ForwardKL()(torch.tensor([-math.inf, -math.inf])).isnan()
    assert ReverseKL()(torch.tensor([-1.0]), torch.tensor([math.inf])).isnan()


def test_reverse_kl_leaves_out_bad_energies():
    log_prob = torch.tensor([-1.0, -2.0, -3.0, -4.0], requires_grad=True)
    loss = ReverseKL()(log_prob, torch.tensor([1.0, math.inf, 5.0, math.nan]))
    loss.backward()
    assert loss.item() == pytest.approx((0.0 + 2.0) / 2)
    assert log_prob.grad.tolist() == [0.5, 0.0, 0.5, 0.0]


class Pole(Target):
    """u = 1/x², infinite at the origin with an infinite slope, as a clash of two atoms is."""

    name = "pole"
    event_shape = torch.Size([1])

    def _energy(self, x):
        return (1 / x**2).squeeze(-1)


def test_an_infinite_slope_does_not_reach_the_parameters(gaussian_flow, gradient):
    flow = gaussian_flow(1.0, 1.0)
    flow.base = TwoPoints(1)
    batch = draw_batch(flow, Pole(), 2, generator(0, "unused"))
    assert batch.x.flatten().tolist() == [0.0, 2.0]
    assert batch.energy.tolist() == [math.inf, 0.25]
    for loss in (ReverseKL()(batch.log_prob, batch.energy), LogDispersion(2.0)(batch.log_prob, batch.energy)):
        assert torch.isfinite(torch.autograd.grad(loss, flow.bijection.theta, retain_graph=True)[0]).all()
    # The sample that is left gives the whole gradient: ∂u/∂x = −2/x³ = −1/4, at x = m + s.
    loss = ReverseKL()(batch.log_prob, batch.energy)
    assert gradient(loss, flow).tolist() == pytest.approx([-0.25, -1.25])


def test_reverse_kl_drops_the_highest_energies_of_each_replica():
    energy = torch.tensor([[5.0, 1.0, 9.0, 2.0], [1.0, 2.0, 3.0, math.inf]])
    loss = ReverseKL(drop_highest=2)(torch.zeros(2, 4), energy)
    assert loss.tolist() == [1.5, 1.5]


def test_replicas_are_averaged_apart():
    log_prob = torch.tensor([[-1.0, -3.0], [-5.0, -7.0]])
    assert ForwardKL()(log_prob).tolist() == [2.0, 6.0]
    assert ReverseKL()(log_prob, torch.ones(2, 2)).tolist() == [-1.0, -5.0]
