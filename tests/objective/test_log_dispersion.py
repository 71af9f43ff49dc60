"""Log-dispersion on Gaussian pairs: value and gradient against closed forms, the centre, what is left out.

q = N(m, s²), u(x) = x²/2, reference N(a, b²): f(x) = (x − m)²/(2s²) + log s + ½ log 2π − x²/2, a parabola.
"""

import itertools
import math

import numpy as np
import pytest
import torch
from scipy import integrate, special, stats

from boltzkit.errors import UserError
from boltzkit.objective import LogDispersion
from boltzkit.objective.penalty import Huber, Power

POWERS = [1.0, 1.5, 2.0, 3.0]
DISPERSIONS = {**{f"l{p}": LogDispersion(p) for p in POWERS}, "huber": LogDispersion.huber(0.3)}
REFERENCE = (0.4, 1.2)
MODELS = [(0.5, 0.8), (-0.3, 1.5)]


@pytest.fixture(params=DISPERSIONS)
def dispersion(request):
    return DISPERSIONS[request.param]


def penalty(dispersion, v):
    """ρ(v), written a second time for NumPy."""
    if isinstance(dispersion.rho, Power):
        return np.abs(v) ** dispersion.p
    d = dispersion.rho.delta
    return np.where(np.abs(v) <= d, v**2, 2 * d * np.abs(v) - d**2)


def slope(dispersion, v):
    """ρ'(v) as Eq. (ldr_grad_general) has it: p |v|^(p−1) sign(v)."""
    if isinstance(dispersion.rho, Power):
        return dispersion.p * np.abs(v) ** (dispersion.p - 1) * np.sign(v)
    d = dispersion.rho.delta
    return np.clip(2 * v, -2 * d, 2 * d)


def parabola(mean, scale):
    """Coefficients of f(x) = A x² + B x + C."""
    constant = mean**2 / (2 * scale**2) + math.log(scale) + 0.5 * math.log(2 * math.pi)
    return 0.5 / scale**2 - 0.5, -mean / scale**2, constant


def value_by_quadrature(dispersion, mean, scale):
    a, b, c = parabola(mean, scale)
    at, width = REFERENCE
    centre = a * (at**2 + width**2) + b * at + c
    # ρ has kinks where f reaches these levels; the integrator must know them.
    levels = [0.0]
    if isinstance(dispersion.rho, Huber):
        levels += [dispersion.rho.delta, -dispersion.rho.delta]
    roots = np.concatenate([np.roots([a, b, c - centre - level]) for level in levels])
    edges = [at - 12 * width, *sorted(roots.real[np.isreal(roots)]), at + 12 * width]

    def integrand(x):
        return penalty(dispersion, a * x**2 + b * x + c - centre) * stats.norm.pdf(x, at, width)

    return sum(integrate.quad(integrand, *pair, epsabs=1e-11)[0] for pair in itertools.pairwise(edges))


def equation(dispersion, x, weights, mean, scale):
    """Eq. (ldr_grad_general) on weighted points: E[ρ'(f − c)(∇f − E∇f)] for θ = (m, log s)."""
    a, b, c = parabola(mean, scale)
    f = a * x**2 + b * x + c
    deviation = f - weights @ f
    grad_f = np.stack([-(x - mean) / scale**2, 1 - (x - mean) ** 2 / scale**2])
    return (grad_f - (grad_f @ weights)[:, None]) @ (weights * slope(dispersion, deviation))


@pytest.mark.parametrize("p", POWERS)
@pytest.mark.parametrize("mean", [0.5, -2.0])
def test_value_on_a_shifted_model(p, mean, gaussian_flow, gradient):
    # At s = 1, f is linear and E|f − c|^p = (|m| b)^p E|y|^p with a standard normal y.
    at, width = REFERENCE
    x = torch.linspace(at - 10 * width, at + 10 * width, 400_001, dtype=torch.float64)
    weights = torch.exp(-0.5 * ((x - at) / width) ** 2)
    flow = gaussian_flow(mean, 1.0)
    loss = LogDispersion(p)(flow.log_prob(x.unsqueeze(-1)), x**2 / 2, weights)
    moment = 2 ** (p / 2) * special.gamma((p + 1) / 2) / math.sqrt(math.pi)
    exact = (abs(mean) * width) ** p * moment
    assert loss.item() == pytest.approx(exact, rel=1e-7)
    assert gradient(loss, flow)[0].item() == pytest.approx(p * exact / mean, rel=1e-7)


def test_huber_on_a_shifted_model(gaussian_flow):
    at, width = REFERENCE
    x = torch.linspace(at - 10 * width, at + 10 * width, 400_001, dtype=torch.float64)
    weights = torch.exp(-0.5 * ((x - at) / width) ** 2)
    delta, size = 0.7, 0.5 * width
    d = delta / size
    tail, hat = math.erfc(d / math.sqrt(2)), math.sqrt(2 / math.pi) * math.exp(-(d**2) / 2)
    exact = size**2 * (1 - tail - d * hat) + 2 * delta * size * hat - delta**2 * tail
    loss = LogDispersion.huber(delta)(gaussian_flow(0.5, 1.0).log_prob(x.unsqueeze(-1)), x**2 / 2, weights)
    assert loss.item() == pytest.approx(exact, rel=1e-7)


@pytest.mark.parametrize(("mean", "scale"), MODELS)
def test_value_on_a_parabola(dispersion, mean, scale, gaussian_flow):
    at, width = REFERENCE
    x = torch.linspace(at - 12 * width, at + 12 * width, 400_001, dtype=torch.float64)
    weights = torch.exp(-0.5 * ((x - at) / width) ** 2)
    loss = dispersion(gaussian_flow(mean, scale).log_prob(x.unsqueeze(-1)), x**2 / 2, weights)
    assert loss.item() == pytest.approx(value_by_quadrature(dispersion, mean, scale), rel=1e-7)


@pytest.mark.parametrize(("mean", "scale"), MODELS)
def test_second_power_is_the_variance(mean, scale, gaussian_flow, gauss_hermite, gradient):
    flow = gaussian_flow(mean, scale)
    at, width = REFERENCE
    x, weights = gauss_hermite(at, width)
    loss = LogDispersion(2.0)(flow.log_prob(x), x[:, 0] ** 2 / 2, weights)
    theta = flow.bijection.theta
    a, b = 0.5 * torch.exp(-2 * theta[1]) - 0.5, -theta[0] * torch.exp(-2 * theta[1])
    variance = 2 * a**2 * width**4 + (2 * a * at + b) ** 2 * width**2
    assert loss.item() == pytest.approx(variance.item(), rel=1e-12)
    torch.testing.assert_close(gradient(loss, flow), gradient(variance, flow), rtol=1e-10, atol=1e-10)


def test_second_power_is_the_sample_variance():
    f = torch.randn(30, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    loss = LogDispersion(2.0)(-f, torch.zeros(30))
    assert loss.item() == pytest.approx(f.var(correction=0).item(), rel=1e-12)


@pytest.mark.parametrize(("mean", "scale"), MODELS)
def test_gradient_flows_through_the_centre(dispersion, mean, scale, gaussian_flow, gauss_hermite, gradient):
    flow = gaussian_flow(mean, scale)
    x, weights = gauss_hermite(*REFERENCE)
    energy = x[:, 0] ** 2 / 2
    log_prob = flow.log_prob(x)
    grad = gradient(dispersion(log_prob, energy, weights), flow).numpy()
    np.testing.assert_allclose(
        grad, equation(dispersion, x[:, 0].numpy(), weights.numpy(), mean, scale), atol=1e-10
    )
    fixed = ((-log_prob - energy) * weights).sum().detach()
    detached = gradient(dispersion(flow.log_prob(x), energy, weights, fixed), flow).numpy()
    difference = np.abs(grad - detached).max()
    # Control: a centre held fixed gives another gradient, except for the variance.
    assert difference < 1e-10 if dispersion.rho == Power(2.0) else difference > 1e-2


@pytest.mark.parametrize(("p", "rate"), [(1.0, 0.0), (1.5, 0.5), (2.0, 1.0), (3.0, 2.0)])
def test_gradient_near_the_optimum(p, rate, gaussian_flow, gauss_hermite, gradient):
    x, weights = gauss_hermite(*REFERENCE)
    distances = np.array([1e-1, 1e-2, 1e-3, 1e-4])
    norms = []
    for distance in distances:
        flow = gaussian_flow(distance, math.exp(distance))
        loss = LogDispersion(p)(flow.log_prob(x), x[:, 0] ** 2 / 2, weights)
        norms.append(gradient(loss, flow).norm().item())
    slopes = np.diff(np.log(norms)) / np.diff(np.log(distances))
    # The first interval is not asymptotic yet.
    np.testing.assert_allclose(slopes[1:], rate, atol=0.05)
    assert norms[-1] > 0.5 if p == 1 else norms[-1] < 0.05


@pytest.mark.parametrize("p", POWERS[1:])
def test_gradient_vanishes_at_the_optimum(p, gaussian_flow, gauss_hermite, gradient):
    x, weights = gauss_hermite(*REFERENCE)
    flow = gaussian_flow(0.0, 1.0)
    loss = LogDispersion(p)(flow.log_prob(x), x[:, 0] ** 2 / 2, weights)
    assert loss.item() < 1e-20
    assert gradient(loss, flow).abs().max() < 1e-6


def test_integer_weights_are_repetitions(dispersion):
    f = torch.tensor([0.3, -1.0, 2.0], dtype=torch.float64)
    weights = torch.tensor([1.0, 4.0, 2.0], dtype=torch.float64)
    repeated = f.repeat_interleave(weights.long())
    weighted = dispersion(-f, torch.zeros(3), weights).item()
    assert weighted == pytest.approx(dispersion(-repeated, torch.zeros(7)).item(), rel=1e-12)
    assert dispersion(-f, torch.zeros(3), 1e-9 * weights).item() == pytest.approx(weighted, rel=1e-12)
    # Control: weights that enter the mean but not the centre give another number.
    assert dispersion(-f, torch.zeros(3), weights, f.mean()).item() != pytest.approx(weighted, rel=1e-3)


def test_learned_centre(dispersion):
    f = torch.tensor([0.3, -1.0, 2.0], dtype=torch.float64)
    centre = torch.tensor(0.1, dtype=torch.float64, requires_grad=True)
    loss = dispersion(-f, torch.zeros(3), None, centre)
    assert loss.item() == pytest.approx(penalty(dispersion, f.numpy() - 0.1).mean(), rel=1e-12)
    loss.backward()
    assert centre.grad.item() == pytest.approx(-slope(dispersion, f.numpy() - 0.1).mean(), rel=1e-12)


def test_constant_in_the_energy_does_not_matter(dispersion):
    f = torch.tensor([0.3, -1.0, 2.0], dtype=torch.float64)
    assert dispersion(-f, torch.full((3,), 7.0)).item() == pytest.approx(
        dispersion(-f, torch.zeros(3)).item(), rel=1e-12
    )


@pytest.mark.parametrize("bad", [math.inf, -math.inf, math.nan])
def test_bad_energies_are_left_out(dispersion, bad):
    log_prob = torch.tensor([-0.3, 1.0, -2.0, 0.5], dtype=torch.float64, requires_grad=True)
    loss = dispersion(log_prob, torch.tensor([0.0, 0.0, 0.0, bad], dtype=torch.float64))
    assert loss.item() == pytest.approx(dispersion(log_prob.detach()[:3], torch.zeros(3)).item(), rel=1e-12)
    loss.backward()
    assert torch.isfinite(log_prob.grad).all()
    assert log_prob.grad[3] == 0


def test_samples_outside_the_support_are_left_out(dispersion):
    theta = torch.tensor(0.2, dtype=torch.float64, requires_grad=True)
    inside = theta * torch.tensor([-0.3, 1.0, -2.0], dtype=torch.float64)
    outside = torch.where(torch.tensor(False), theta, -math.inf).reshape(1)
    loss = dispersion(torch.cat([inside, outside]), torch.zeros(4, dtype=torch.float64))
    assert loss.item() == pytest.approx(dispersion(inside.detach(), torch.zeros(3)).item(), rel=1e-12)
    loss.backward()
    alone = torch.autograd.grad(dispersion(theta * inside.detach() / 0.2, torch.zeros(3)), theta)[0]
    assert theta.grad.item() == pytest.approx(alone.item(), rel=1e-12)


def test_nan_log_prob_is_a_failure(dispersion):
    assert dispersion(torch.tensor([0.0, math.nan, 1.0]), torch.zeros(3)).isnan()


def test_replicas_are_centred_apart(dispersion):
    f = torch.tensor([[0.3, -1.0, 2.0], [10.3, 9.0, 12.0]], dtype=torch.float64)
    loss = dispersion(-f, torch.zeros(2, 3))
    assert loss[0].item() == pytest.approx(loss[1].item(), rel=1e-12)
    centres = torch.tensor([0.0, 1.0], dtype=torch.float64)
    fixed = dispersion(-f, torch.zeros(2, 3), None, centres)
    assert fixed[1].item() == pytest.approx(penalty(dispersion, f[1].numpy() - 1).mean(), rel=1e-12)


@pytest.mark.parametrize("make", [lambda: LogDispersion(0.5), lambda: LogDispersion.huber(0.0)])
def test_impossible_penalties_are_refused(make):
    with pytest.raises(UserError, match="LogDispersion"):
        make()
