"""Energy, log Z and exact samples of each target describe one and the same density."""

import math

import pytest
import torch
from scipy.integrate import quad
from scipy.stats import kstest
from torch import Tensor

from boltzkit.energy import GaussianMixture, Target
from boltzkit.randomness import generator

N_SAMPLES = 20_000
N_PROPOSALS = 1_000_000


def importance_ratios(target: Target, widths: float | tuple[float, ...]) -> Tensor:
    """Return exp(−u(x)) / q(x) Z, whose mean is 1, at independent Cauchy variables x ~ q."""
    width = torch.as_tensor(widths, dtype=torch.float64)
    uniform = torch.rand(
        N_PROPOSALS, *target.event_shape, generator=generator(0, "proposal"), dtype=torch.float64
    )
    x = width * torch.tan(math.pi * (uniform - 0.5))
    log_proposal = -torch.log(math.pi * width * (1 + (x / width) ** 2)).sum(-1)
    assert target.log_z is not None
    return torch.exp(-target(x) - log_proposal - target.log_z)


def deviation(values: Tensor, expected: float) -> Tensor:
    """Return how many standard errors the mean of the values is away from what is expected."""
    return (values.mean(0) - expected) / (values.std(0) / math.sqrt(len(values)))


def virial(target: Target, x: Tensor) -> Tensor:
    """Return x ∂u/∂x, whose mean under exp(−u)/Z is 1 for every coordinate, by integration by parts."""
    _, gradient = target.energy_and_gradient(x)
    return x * gradient


def test_log_z_agrees_with_importance_sampling_and_a_shift_of_a_tenth_is_rejected(case) -> None:
    ratios = importance_ratios(case.build(), case.width)
    assert deviation(ratios, 1.0).abs() < 4
    for shift in (-0.1, 0.1):
        assert deviation(ratios * math.exp(-shift), 1.0).abs() > 4


def test_first_coordinate_has_its_law(case) -> None:
    x = case.build().sample(N_SAMPLES, generator(1, "samples"))
    assert kstest(x[:, 0].numpy(), case.cdf).pvalue > 1e-3


@pytest.mark.parametrize(("stretch", "shift"), [(1.1, 0.0), (1.0, 0.15)])
def test_samples_of_a_slightly_wrong_law_are_rejected(case, stretch: float, shift: float) -> None:
    x = stretch * case.build().sample(N_SAMPLES, generator(1, "samples")) + shift
    assert kstest(x[:, 0].numpy(), case.cdf).pvalue < 1e-3


def test_samples_obey_the_virial_theorem(target: Target) -> None:
    x = target.sample(N_SAMPLES, generator(2, "samples"))
    assert deviation(virial(target, x), 1.0).abs().max() < 4


def test_stretched_samples_break_the_virial_theorem(target: Target) -> None:
    x = 1.1 * target.sample(N_SAMPLES, generator(2, "samples"))
    assert (deviation(virial(target, x), 1.0) > 4).all()


def gmm_entropy(scale: float) -> float:
    """Return the entropy of the four modes by quadrature: twice that of one axis."""
    axis = GaussianMixture.hypercube(1, scale)

    def integrand(value: float) -> float:
        energy = float(axis(torch.tensor([value], dtype=torch.float64)))
        return energy * math.exp(-energy)

    return 2 * quad(integrand, -8, 8, points=[-1, 1], limit=200)[0]


def test_paper_gmm_has_entropy_2_7170() -> None:
    assert gmm_entropy(0.5) == pytest.approx(2.7170, abs=5e-5)
    assert gmm_entropy(0.51) != pytest.approx(2.7170, abs=5e-3)


def test_paper_gmm_samples_have_its_entropy() -> None:
    target = GaussianMixture.hypercube(2, 0.5)
    energy = target(target.sample(100_000, generator(3, "samples")))
    error = float(energy.std()) / math.sqrt(len(energy))
    assert error < 0.005
    assert abs(float(energy.mean()) - 2.7170) < 4 * error
    wider = target(GaussianMixture.hypercube(2, 0.52).sample(100_000, generator(3, "samples")))
    assert abs(float(wider.mean()) - 2.7170) > 4 * error
