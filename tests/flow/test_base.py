"""Bases: densities that integrate to one, samples that follow them, an honest answer outside the support."""

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from scipy import integrate, stats

from boltzkit.errors import UserError
from boltzkit.flow import Base, Product, StandardNormal, StudentT, TruncatedNormal, Uniform
from boltzkit.randomness import generator

BASES: dict[str, Callable[[int], Base]] = {
    "normal": StandardNormal,
    "uniform": Uniform,
    "truncated-normal": TruncatedNormal,
    "truncated-normal-off-centre": lambda dim: TruncatedNormal(dim, mean=0.1, scale=0.4),
    "student-t": StudentT,
    "student-t-5": lambda dim: StudentT(dim, degrees=5),
}
BOUNDED = ("uniform", "truncated-normal", "truncated-normal-off-centre")


def density(base: Base, x: np.ndarray) -> np.ndarray:
    """The density of a one-dimensional base."""
    return base.log_prob(torch.as_tensor(x, dtype=torch.float64).reshape(-1, 1)).exp().numpy()


def ks_p_value(base: Base, samples: torch.Tensor) -> float:
    """Kolmogorov–Smirnov p-value of samples against the distribution function that log_prob integrates to."""
    # In sinh coordinates the grid reaches far into a Student's tails.
    grid = np.sinh(np.linspace(-9.0, 9.0, 200_001))
    if isinstance(base, (Uniform, TruncatedNormal)):
        grid = np.linspace(0.0, 1.0, 200_001)
    cumulative = integrate.cumulative_trapezoid(density(base, grid), grid, initial=0.0)
    return float(stats.kstest(samples.flatten().numpy(), lambda x: np.interp(x, grid, cumulative)).pvalue)


@pytest.mark.parametrize("name", BASES)
def test_density_integrates_to_one(name):
    base = BASES[name](1)
    low, high = (0.0, 1.0) if name in BOUNDED else (-math.inf, math.inf)
    mass, _ = integrate.quad(lambda x: density(base, np.array([x]))[0], low, high, epsabs=1e-10)
    assert mass == pytest.approx(1.0, abs=1e-8)


@pytest.mark.parametrize("name", BASES)
def test_dims_are_independent(name):
    z = BASES[name](3).sample((7,), generator(0, "dims"))
    alone = sum(BASES[name](1).log_prob(z[:, i : i + 1]) for i in range(3))
    torch.testing.assert_close(BASES[name](3).log_prob(z), alone)


@pytest.mark.parametrize("name", BASES)
def test_samples_follow_the_density(name):
    base = BASES[name](2)
    samples = base.sample((10_000,), generator(5, "ks"))
    assert ks_p_value(BASES[name](1), samples) > 1e-3
    # Control: samples a fifth too narrow are caught.
    middle = 0.5 if name in BOUNDED else 0.0
    assert ks_p_value(BASES[name](1), middle + 0.8 * (samples - middle)) < 1e-9


@pytest.mark.parametrize("name", BASES)
def test_samples_have_shape_precision_and_finite_density(name):
    base = BASES[name](3)
    samples = base.sample((4, 1000), generator(1, "shape"))
    assert samples.shape == (4, 1000, 3)
    assert samples.dtype == torch.float64
    assert base.log_prob(samples).shape == (4, 1000)
    assert torch.isfinite(base.log_prob(samples)).all()
    assert torch.equal(samples, base.sample((4, 1000), generator(1, "shape")))


@pytest.mark.parametrize("name", BOUNDED)
@pytest.mark.parametrize("outside", [-1e-9, 1 + 1e-9, -3.0, 40.0])
def test_outside_the_support_is_minus_infinity(name, outside):
    z = torch.full((2, 2), 0.5, dtype=torch.float64)
    z[1, 1] = outside
    log_prob = BASES[name](2).log_prob(z)
    assert torch.isfinite(log_prob[0])
    assert log_prob[1] == -math.inf


@pytest.mark.parametrize("name", BASES)
def test_nan_stays_nan(name):
    # A NaN is a failure to report, not a point outside the support to leave out.
    z = torch.tensor([[0.5, math.nan], [0.5, 0.5]], dtype=torch.float64)
    assert BASES[name](2).log_prob(z).isnan().tolist() == [True, False]


@pytest.mark.parametrize("name", BOUNDED)
def test_gradient_outside_the_support_is_zero_not_nan(name):
    z = torch.tensor([[0.3, 0.4], [0.3, 1.7]], dtype=torch.float64, requires_grad=True)
    log_prob = BASES[name](2).log_prob(z)
    torch.where(torch.isfinite(log_prob), log_prob, 0.0).sum().backward()
    assert torch.isfinite(z.grad).all()
    assert (z.grad[1] == 0).all()


def test_product_gives_each_dim_its_part():
    base = Product([(Uniform(2), [0, 3]), (TruncatedNormal(1), [2]), (StandardNormal(1), [1])])
    z = base.sample((5_000,), generator(0, "product"))
    assert z.shape == (5_000, 4)
    assert z.std(0).tolist() == pytest.approx([12**-0.5, 1.0, 0.1, 12**-0.5], rel=0.05)
    parts = (Uniform(2), [0, 3]), (TruncatedNormal(1), [2]), (StandardNormal(1), [1])
    torch.testing.assert_close(base.log_prob(z), sum(part.log_prob(z[:, dims]) for part, dims in parts))
    z[0, 3] = 1.5
    assert base.log_prob(z)[0] == -math.inf


def test_product_takes_every_dim_once():
    for dims in ([0, 2], [0, 0], [0]):
        with pytest.raises(UserError, match="share its dims"):
            Product([(Uniform(2), dims)])
