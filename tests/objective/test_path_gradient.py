"""Path-gradient forward KL: zero for every sample at q = p, equal to the forward KL on average."""

import math

import pytest
import torch

from boltzkit.energy import GaussianMixture, Harmonic
from boltzkit.flow import RealNVPConfig, build_realnvp
from boltzkit.objective import ForwardKL, PathGradientForwardKL
from boltzkit.randomness import generator


@pytest.fixture
def realnvp():
    """A float64 RealNVP in two dims, away from the identity."""
    config = RealNVPConfig(layers=4, hidden=(8, 8), statistics="running")
    flow = build_realnvp(config, 2, (0,), batched=False).double()
    for link in flow.bijection.links:
        link.conditioner.last.weight.data.normal_(0, 0.15, generator=generator(0, "test weights"))
    return flow.eval()


def per_sample_gradients(loss_of, flow, n):
    """Norm of the gradient that each sample gives alone, ``(n,)``."""
    norms = []
    for i in range(n):
        grads = torch.autograd.grad(loss_of(slice(i, i + 1)), list(flow.parameters()), allow_unused=True)
        norms.append(math.sqrt(sum(float((g**2).sum()) for g in grads if g is not None)))
    return norms


def flat_gradient(loss, flow):
    grads = torch.autograd.grad(loss, list(flow.parameters()), allow_unused=True)
    return torch.cat([g.flatten() for g in grads if g is not None])


def test_every_sample_is_silent_at_the_optimum(realnvp):
    # The target is the flow itself, u = −log q: then q = p exactly.
    x = realnvp.sample(8, generator(1, "samples")).x.detach().requires_grad_()
    (gradient,) = torch.autograd.grad(-realnvp.log_prob(x).sum(), x)
    x = x.detach()
    path = per_sample_gradients(
        lambda i: PathGradientForwardKL()(realnvp, x[i], gradient[i])[0], realnvp, len(x)
    )
    assert max(path) <= 1e-10
    # Control: the usual estimator is zero on average only.
    usual = per_sample_gradients(lambda i: ForwardKL()(realnvp.log_prob(x[i])), realnvp, len(x))
    assert min(usual) > 1e-2


@pytest.mark.parametrize(("mean", "scale"), [(0.0, 1.0), (0.7, 1.0), (-0.4, 1.6), (0.2, 0.7)])
def test_expectation_on_gaussians(mean, scale, gaussian_flow, gauss_hermite, gradient):
    flow = gaussian_flow(mean, scale)
    x, weights = gauss_hermite()
    loss, _ = PathGradientForwardKL()(flow, x, x, weights)
    exact = [mean / scale**2, 1 - (1 + mean**2) / scale**2]
    assert gradient(loss, flow).tolist() == pytest.approx(exact, abs=1e-10)


def test_expectation_of_a_flow_on_a_mixture(realnvp):
    # Trapezoid weights p(x) on a grid: exact to far below the tolerance for functions as smooth as these.
    line = torch.linspace(-4.5, 4.5, 181, dtype=torch.float64)
    x = torch.cartesian_prod(line, line)
    energy, force = GaussianMixture.hypercube(2, 0.5).energy_and_gradient(x)
    weights = (-energy).exp()
    assert (weights.sum() * (line[1] - line[0]) ** 2).item() == pytest.approx(1.0, abs=1e-9)
    path = flat_gradient(PathGradientForwardKL()(realnvp, x, force, weights)[0], realnvp)
    usual = flat_gradient(ForwardKL()(realnvp.log_prob(x), weights), realnvp)
    assert usual.norm() > 0.1
    assert ((path - usual).norm() / usual.norm()).item() < 1e-6
    # Control: a target whose force has the wrong sign does not give the forward KL.
    wrong = flat_gradient(PathGradientForwardKL()(realnvp, x, -force, weights)[0], realnvp)
    assert ((wrong - usual).norm() / usual.norm()).item() > 0.1


def test_value_is_the_forward_kl(realnvp):
    x = Harmonic(torch.eye(2)).sample(50, generator(0, "data"))
    weights = torch.rand(50, generator=generator(0, "weights"), dtype=torch.float64)
    for w in (None, weights):
        loss, log_prob = PathGradientForwardKL()(realnvp, x, x, w)
        torch.testing.assert_close(log_prob, realnvp.log_prob(x))
        torch.testing.assert_close(loss, ForwardKL()(realnvp.log_prob(x), w), rtol=1e-12, atol=1e-12)


def test_log_prob_keeps_its_gradient_for_the_dispersion(realnvp):
    x = Harmonic(torch.eye(2)).sample(20, generator(0, "data"))
    _, log_prob = PathGradientForwardKL()(realnvp, x, x)
    torch.testing.assert_close(
        flat_gradient(log_prob.sum(), realnvp), flat_gradient(realnvp.log_prob(x).sum(), realnvp)
    )


def test_running_statistics_match_in_training_mode(realnvp):
    # The transform must undo the inverse that training just took, with the statistics it just updated.
    flow = realnvp.train()
    x = 2 + Harmonic(torch.eye(2)).sample(60, generator(0, "data"))
    loss, _ = PathGradientForwardKL()(flow, x, x)
    trained = flat_gradient(loss, flow)
    assert flow.training
    evaluated = flat_gradient(PathGradientForwardKL()(flow.eval(), x, x)[0], flow)
    torch.testing.assert_close(trained, evaluated, rtol=1e-9, atol=1e-12)
