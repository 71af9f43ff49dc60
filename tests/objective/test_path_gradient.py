"""Path-gradient forward KL: zero for every sample at q = p, equal to the forward KL on average."""

import math

import pytest
import torch
from torch import nn

from boltzkit.coordinates import Bijection, InternalCoordinates, random_rotations
from boltzkit.energy import GaussianMixture, Harmonic
from boltzkit.flow import (
    SPLINE_PRESETS,
    Chain,
    Flow,
    RealNVPConfig,
    StandardNormal,
    TarFlowConfig,
    Uniform,
    build_realnvp,
    build_spline_bijection,
    build_tarflow,
    unit_box_base,
)
from boltzkit.molecule import find_molecule
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


class Stretch(Bijection):
    """x = m + s z on positions ``(atoms, 3)``, with parameters (m, log s)."""

    def __init__(self):
        super().__init__()
        self.theta = nn.Parameter(torch.tensor([0.3, -0.4], dtype=torch.float64))

    def transform(self, z):
        x = self.theta[0] + self.theta[1].exp() * z
        return x.reshape(*z.shape[:-1], -1, 3), self.theta[1] * z.shape[-1] * torch.ones_like(z[..., 0])

    def inverse(self, x):
        z = ((x - self.theta[0]) * torch.exp(-self.theta[1])).flatten(-2)
        return z, -self.theta[1] * z.shape[-1] * torch.ones_like(z[..., 0])


def positions(n, atoms):
    return 0.3 * torch.randn(n, atoms, 3, generator=generator(2, "positions"), dtype=torch.float64)


@pytest.mark.parametrize("atoms", [1, 2, 4])
def test_closed_form_on_positions(atoms):
    flow = Flow(StandardNormal(3 * atoms), Stretch(), event_shape=(atoms, 3))
    x = positions(20, atoms)
    # A force along the distances, so that it turns with the molecule; one atom has none.
    slope = 2 * (x - x.mean(-2, keepdim=True))
    loss, _ = PathGradientForwardKL()(flow, x, slope)
    torch.testing.assert_close(loss, -flow.log_prob(x).mean())
    scale = flow.bijection.theta[1].exp().detach()
    z, slope = flow.bijection.inverse(x)[0].detach(), slope.flatten(1)
    force = z - scale * slope
    expected = torch.stack([-(force / scale).sum(-1).mean(), -(force * z).sum(-1).mean()])
    torch.testing.assert_close(flat_gradient(loss, flow), expected)


@pytest.fixture
def tarflow():
    """A float64 TarFlow of four atoms, away from the identity."""
    flow = build_tarflow(TarFlowConfig(blocks=2, layers=2, channels=8, heads=2), 4, 0, 0.3).double()
    for parameter in flow.parameters():
        noise = torch.randn(parameter.shape, generator=generator(0, "test weights"), dtype=torch.float64)
        parameter.data.add_(0.05 * noise)
    return flow


def slopes(flow, x):
    """Return ∂u/∂x of the target u = −log q that the flow already is, over all of space."""
    leaf = x.detach().requires_grad_()
    z, log_det = flow.bijection.inverse(leaf)
    return torch.autograd.grad(-(flow.base.log_prob(z) + log_det).sum(), leaf)[0]


def test_every_sample_of_tarflow_is_silent_at_the_optimum(tarflow):
    x = tarflow.sample(6, generator(1, "samples")).x.detach()
    gradient = slopes(tarflow, x)
    path = per_sample_gradients(
        lambda i: PathGradientForwardKL()(tarflow, x[i], gradient[i])[0], tarflow, len(x)
    )
    assert max(path) <= 1e-9
    usual = per_sample_gradients(lambda i: ForwardKL()(tarflow.log_prob(x[i])), tarflow, len(x))
    assert min(usual) > 1e-2


def test_tarflow_against_a_dense_jacobian(tarflow):
    x = positions(5, 4)
    gradient = torch.randn(5, 4, 3, generator=generator(3, "slopes"), dtype=torch.float64)
    loss, _ = PathGradientForwardKL()(tarflow, x, gradient)
    # ∂/∂z of −u − log q is Jᵀ of its slope in x, where J is the inverse of the Jacobian of z(x).
    slope = -gradient.flatten(1) + slopes(tarflow, x).flatten(1)
    jacobian = torch.stack(
        [
            torch.autograd.functional.jacobian(
                lambda p: tarflow.bijection.inverse(p.reshape(1, 4, 3))[0][0], point.flatten()
            )
            for point in x
        ]
    )
    force = torch.linalg.solve(jacobian.mT, slope)
    expected = flat_gradient((force * tarflow.bijection.inverse(x)[0]).sum(-1).mean(), tarflow)
    torch.testing.assert_close(flat_gradient(loss, tarflow), expected, rtol=1e-7, atol=1e-9)
    # Control: without the solve, by the Jacobian itself, it is another gradient.
    wrong = torch.einsum("nij,nj->ni", jacobian, slope)
    other = flat_gradient((wrong * tarflow.bijection.inverse(x)[0]).sum(-1).mean(), tarflow)
    assert (other - expected).norm() > 0.1 * expected.norm()


def test_internal_coordinates_are_silent_at_the_optimum_wherever_the_data_stand():
    coordinates = InternalCoordinates.of(find_molecule("alanine-dipeptide"))
    spline = build_spline_bijection(
        SPLINE_PRESETS["tiny"], coordinates.kinds, 0, circular=coordinates.circular
    )
    flow = Flow(unit_box_base(coordinates.kinds), Chain([spline, coordinates]), event_shape=(22, 3)).double()
    for name, parameter in flow.named_parameters():
        noise = torch.randn(parameter.shape, generator=generator(0, name), dtype=torch.float64)
        parameter.data.add_(0.1 * noise)
    placed = flow.sample(4, generator(1, "samples")).x.detach()
    x = placed @ random_rotations(4, generator(2, "turns")).mT + 0.5
    gradient = slopes(flow, x)
    path = per_sample_gradients(lambda i: PathGradientForwardKL()(flow, x[i], gradient[i])[0], flow, len(x))
    usual = per_sample_gradients(lambda i: ForwardKL()(flow.log_prob(x[i])), flow, len(x))
    assert max(path) <= 1e-6 * max(usual)
    # Control: slopes that belong to other directions than the data.
    wrong = per_sample_gradients(
        lambda i: PathGradientForwardKL()(flow, placed[i], gradient[i])[0], flow, len(x)
    )
    assert min(wrong) > 1e-2 * max(usual)


def test_parameters_want_the_gradients_they_wanted_before(tarflow):
    still = tarflow.bijection.blocks[0].network.places.requires_grad_(False)
    x = positions(3, 4)
    loss, _ = PathGradientForwardKL()(tarflow, x, x)
    loss.backward()
    assert not still.requires_grad
    assert all(parameter.requires_grad for parameter in tarflow.parameters() if parameter is not still)
    assert still.grad is None
    assert tarflow.bijection.blocks[1].network.places.grad.abs().sum() > 0


def test_a_sample_outside_the_support_stays_alone(gaussian_flow):
    flow = Flow(Uniform(1), gaussian_flow(0.2, 1.3).bijection)
    x = torch.tensor([[0.4], [50.0]], dtype=torch.float64)
    slope = torch.tensor([[0.7], [torch.nan]], dtype=torch.float64)
    loss, log_prob = PathGradientForwardKL()(flow, x, slope)
    alone, _ = PathGradientForwardKL()(flow, x[:1], slope[:1])
    assert log_prob.isneginf().tolist() == [False, True]
    torch.testing.assert_close(loss, alone)
    torch.testing.assert_close(flat_gradient(loss, flow), flat_gradient(alone, flow))
