"""One registry of targets: every law test runs on each of them."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy.integrate import cumulative_trapezoid
from scipy.stats import norm, t

from boltzkit.energy import (
    DoubleWell,
    Funnel,
    GaussianMixture,
    Harmonic,
    HypercubeMixture,
    ManyWell,
    StudentTMixture,
    Target,
)

Array = NDArray[np.float64]

STIFFNESS = torch.tensor([[4.0, 1.0, 0.0], [1.0, 2.0, -0.5], [0.0, -0.5, 1.0]], dtype=torch.float64)
CENTRE = torch.tensor([0.5, -1.0, 0.2], dtype=torch.float64)
MEANS = torch.tensor([[0.0, 0.0], [2.0, 1.0], [-1.5, 2.0]], dtype=torch.float64)


@dataclass(frozen=True)
class Case:
    """A target with what is known of it from elsewhere.

    Attributes:
        build: makes a fresh target, whose counter is at zero.
        cdf: distribution function of the first coordinate, written down independently of the sampler.
        width: scale of a Cauchy proposal that covers the target, one number or one per coordinate.
    """

    build: Callable[[], Target]
    cdf: Callable[[Array], Array]
    width: float | tuple[float, ...]


def _well_cdf(tilt: float) -> Callable[[Array], Array]:
    grid = np.linspace(-4.5, 4.5, 20001)
    density = np.exp(-(grid**4) + 6 * grid**2 - tilt * grid)
    cumulative = cumulative_trapezoid(density, grid, initial=0.0)
    return lambda x: np.interp(x, grid, cumulative / cumulative[-1])


def _two_modes(x: Array) -> Array:
    return 0.5 * (norm.cdf(x, -1, 0.5) + norm.cdf(x, 1, 0.5))


def _three_modes(x: Array) -> Array:
    return np.mean([norm.cdf(x, mean, 0.7) for mean in (0.0, 2.0, -1.5)], axis=0)


def _harmonic(x: Array) -> Array:
    return norm.cdf(x, 0.5, np.sqrt(np.linalg.inv(STIFFNESS.numpy())[0, 0]))


def _student_t(x: Array) -> Array:
    return np.mean([t.cdf((x - mean) / 0.8, 4) for mean in (0.0, 2.0, -1.5)], axis=0)


CASES = {
    "gmm-explicit": Case(lambda: GaussianMixture(MEANS, 0.7), _three_modes, 1.5),
    "gmm": Case(lambda: GaussianMixture.hypercube(2, 0.5), _two_modes, 1.0),
    "gmm-nd": Case(lambda: HypercubeMixture(3, 0.5), _two_modes, 1.0),
    "double-well": Case(DoubleWell, _well_cdf(1.0), (2.0, 1.0)),
    "many-well": Case(lambda: ManyWell(4), _well_cdf(-0.5), (2.0, 1.0, 2.0, 1.0)),
    "funnel": Case(lambda: Funnel(2), lambda x: norm.cdf(x, 0, 3), 2.0),
    "harmonic": Case(lambda: Harmonic(STIFFNESS, CENTRE), _harmonic, 1.0),
    "student-t": Case(lambda: StudentTMixture(MEANS, 0.8, degrees=4), _student_t, 2.0),
}


@pytest.fixture(params=CASES.values(), ids=CASES.keys())
def case(request: pytest.FixtureRequest) -> Case:
    found: Case = request.param
    return found


@pytest.fixture
def target(case: Case) -> Target:
    return case.build()
