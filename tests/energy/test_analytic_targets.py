"""What is particular to single targets: closed forms, published numbers, refusals."""

import itertools
import math

import pytest
import torch
from scipy.integrate import quad
from scipy.stats import f, kstest, norm

from boltzkit.energy import (
    DoubleWell,
    Funnel,
    GaussianMixture,
    Harmonic,
    HypercubeMixture,
    ManyWell,
    StudentTMixture,
)
from boltzkit.energy.quartic_law import QuarticLaw
from boltzkit.errors import UserError
from boltzkit.randomness import generator


@pytest.mark.parametrize("dim", [1, 2, 3, 5])
def test_hypercube_product_equals_the_explicit_mixture(dim: int) -> None:
    corners = torch.tensor(list(itertools.product((-1.0, 1.0), repeat=dim)))
    explicit, product = GaussianMixture(corners, 0.4), GaussianMixture.hypercube(dim, 0.4)
    x = 3 * torch.randn(100, dim, generator=generator(0, "points"), dtype=torch.float64)
    for first, second in zip(explicit.energy_and_gradient(x), product.energy_and_gradient(x), strict=True):
        torch.testing.assert_close(first, second, rtol=1e-12, atol=1e-12)


def test_hypercube_works_in_many_dimensions() -> None:
    target = GaussianMixture.hypercube(20, 0.5)
    x = target.sample(5000, generator(0, "samples"))
    error = float(target(x).std()) / math.sqrt(len(x))
    assert abs(float(target(x).mean()) - 10 * 2.71701) < 4 * error
    assert len(x.sign().unique(dim=0)) > 4900


# Noé's and Midgley's tilts, a high barrier, a single well, a pure quartic, the double root of u'.
@pytest.mark.parametrize(
    ("a", "b", "c"), [(1, 6, 1), (1, 6, -0.5), (0.5, 40, 3), (1, -5, 2), (1, 0, 0), (1, 1.5, math.sqrt(2))]
)
def test_quartic_log_z_agrees_with_adaptive_quadrature(a: float, b: float, c: float) -> None:
    law = QuarticLaw(a, b, c)
    lowest = min(float(law.energy(x)) for x in law._stationary)
    centre, low, high = math.sqrt(max(b, 0) / (2 * a)), *law._bounds

    def density(x: float) -> float:
        return math.exp(lowest - (a * x**4 - b * x**2 + c * x))

    value, _ = quad(density, low, high, points=[-centre, centre], limit=500, epsabs=0, epsrel=1e-13)
    assert law.log_z == pytest.approx(math.log(value) - lowest, abs=1e-10)


def test_quartic_log_z_at_the_highest_barrier_is_that_of_two_gaussians() -> None:
    law = QuarticLaw(1.0, 632.0, 0.0)
    laplace = 316**2 + math.log(2 * math.sqrt(2 * math.pi / (4 * 632)))
    assert law.log_z == pytest.approx(laplace, abs=1e-5)


@pytest.mark.parametrize(("a", "b", "c"), [(0.5, 40, 3), (1, -5, 2), (1, 0, 0), (1, 1.5, math.sqrt(2))])
def test_quartic_envelope_is_nowhere_below_the_density(a: float, b: float, c: float) -> None:
    law = QuarticLaw(a, b, c)
    envelope = law._envelope
    where = torch.rand(50, 1, generator=generator(0, "points"), dtype=torch.float64)
    energy = law.energy(envelope.left + where * envelope.width)
    assert (energy - envelope.floor).min() > -1e-9
    assert not (energy - envelope.floor).min() > 1e-3


def test_quartic_tilt_is_told_apart_by_well_population() -> None:
    x = DoubleWell().sample(50_000, generator(0, "samples"))
    density = lambda x: math.exp(-(x**4) + 6 * x**2 - x)  # noqa: E731
    left = quad(density, -4.5, 0)[0] / quad(density, -4.5, 4.5, points=[-1.7, 1.7])[0]
    error = math.sqrt(left * (1 - left) / len(x))
    assert abs(float((x[:, 0] < 0).double().mean()) - left) < 4 * error
    tilted = DoubleWell(c=0.95).sample(50_000, generator(0, "samples"))
    assert abs(float((tilted[:, 0] < 0).double().mean()) - left) > 4 * error


def test_many_well_has_the_published_partition_function() -> None:
    assert ManyWell().event_shape == (32,)
    per_well = math.log(11784.50927) + 0.5 * math.log(2 * math.pi)
    assert ManyWell().log_z == pytest.approx(16 * per_well, abs=1e-7)


def test_many_well_is_a_sum_of_double_wells() -> None:
    x = torch.randn(7, 6, generator=generator(0, "points"), dtype=torch.float64)
    pairs = sum(DoubleWell(c=-0.5)(x[:, k : k + 2]) for k in (0, 2, 4))
    torch.testing.assert_close(ManyWell(6)(x), pairs)


def test_every_many_well_coordinate_is_sampled() -> None:
    x = ManyWell(6).sample(4000, generator(0, "samples"))
    assert all(kstest(x[:, k].numpy(), norm.cdf).pvalue > 1e-3 for k in (1, 3, 5))
    assert all(kstest(x[:, k].numpy(), norm.cdf).pvalue < 1e-3 for k in (0, 2, 4))
    assert x.T.corrcoef().fill_diagonal_(0).abs().max() < 4 / math.sqrt(4000)


def test_funnel_others_are_standard_at_the_width_of_the_neck() -> None:
    x = Funnel().sample(4000, generator(0, "samples"))
    standard = x[:, 1:] * (-0.5 * x[:, :1]).exp()
    assert all(kstest(column.numpy(), norm.cdf).pvalue > 1e-3 for column in standard.T)
    assert kstest(x[:, 1].numpy(), norm.cdf).pvalue < 1e-3


def test_harmonic_frequencies_are_inverse_standard_deviations() -> None:
    frequencies = torch.tensor([0.5, 2.0, 10.0])
    target = Harmonic.from_frequencies(frequencies)
    assert target.log_z == pytest.approx(sum(norm.entropy(scale=1 / w) - 0.5 for w in frequencies.tolist()))
    x = target.sample(20_000, generator(0, "samples"))
    torch.testing.assert_close(x.std(0), 1 / frequencies.double(), rtol=0.02, atol=0)


def test_harmonic_samples_have_the_inverse_stiffness_as_covariance() -> None:
    stiffness = torch.tensor([[4.0, 1.5], [1.5, 1.0]], dtype=torch.float64)
    x = Harmonic(stiffness).sample(50_000, generator(0, "samples"))
    torch.testing.assert_close(x.T.cov(), stiffness.inverse(), rtol=0.03, atol=0)
    with pytest.raises(AssertionError):
        torch.testing.assert_close(x.T.cov(), (1.1 * stiffness).inverse(), rtol=0.03, atol=0)


def test_student_t_radii_follow_the_f_distribution() -> None:
    """|x|²/dσ² ~ F(d, ν) only if one χ² is shared by all dimensions."""
    x = StudentTMixture(torch.zeros(1, 3), 0.5, degrees=4).sample(50_000, generator(0, "samples"))
    radius = (x**2).sum(-1).numpy() / (3 * 0.5**2)
    assert kstest(radius, f(3, 4).cdf).pvalue > 1e-3
    assert kstest(1.05**2 * radius, f(3, 4).cdf).pvalue < 1e-3


@pytest.mark.parametrize(
    ("build", "sentence"),
    [
        (lambda: HypercubeMixture(0), "dim of at least 1, not 0"),
        (lambda: HypercubeMixture(2, -1.0), "scale above zero, not -1"),
        (lambda: GaussianMixture(torch.zeros(1, 2), math.nan), "scale above zero, not nan"),
        (lambda: DoubleWell(a=0.0), "weight a above zero"),
        (lambda: DoubleWell(c=math.inf), "finite weights"),
        (lambda: DoubleWell(b=1e5), "barrier"),
        (lambda: ManyWell(5), "even dim, not 5: take 4 or 6"),
        (lambda: Funnel(1), "dim of at least 2"),
        (lambda: StudentTMixture.cross(2, degrees=0), "degrees of freedom of at least 1"),
        (lambda: Harmonic(torch.tensor([[1.0, 2.0], [2.0, 1.0]])), "positive definite"),
        (lambda: Harmonic(torch.tensor([[1.0, 0.5], [0.0, 1.0]])), "symmetric"),
        (lambda: Harmonic(torch.ones(2, 3)), "symmetric"),
        (lambda: Harmonic(torch.eye(2), torch.zeros(3)), "centre"),
        (lambda: Harmonic.from_frequencies(torch.tensor([1.0, 0.0])), "no frequency"),
    ],
)
def test_impossible_targets_are_refused(build, sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        build()
