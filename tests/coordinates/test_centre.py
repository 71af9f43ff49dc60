"""The law of the centre: its constants against closed forms, and what each correction costs a perfect model."""

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from boltzkit.coordinates import rigid_body_log_volume
from boltzkit.coordinates.centre import centre_energy
from boltzkit.energy import Target
from boltzkit.randomness import generator
from boltzkit.weights import LogWeights, ess_interval

STIFFNESS, SIGMA = 20.0, 0.07


class Springs(Target):
    """A spring between every two atoms: u = k/2 Σ |x_i − x_j|² = k N/2 Σ |x_i°|²."""

    name = "springs"

    def __init__(self, n_atoms: int) -> None:
        self.n_atoms, self.event_shape = n_atoms, torch.Size((n_atoms, 3))

    def _energy(self, x: Tensor) -> Tensor:
        apart = x.unsqueeze(-2) - x.unsqueeze(-3)
        return 0.25 * STIFFNESS * (apart**2).sum((-1, -2, -3))

    @property
    def log_z_centred(self) -> float:
        """Log Z over X₀, whose 3 (N − 1) orthonormal directions all have stiffness k N."""
        return 1.5 * (self.n_atoms - 1) * math.log(2 * math.pi / (STIFFNESS * self.n_atoms))

    def sample_centred(self, n: int, draw: torch.Generator) -> Tensor:
        noise = torch.randn(n, self.n_atoms, 3, generator=draw, dtype=torch.float64)
        return (noise - noise.mean(-2, keepdim=True)) / math.sqrt(STIFFNESS * self.n_atoms)


class Augmented(Target):
    """The energy −log p_aug of configurations whose centre moves."""

    name = "augmented"

    def __init__(self, target: Target, correction: str = "gaussian") -> None:
        self.target, self.event_shape, self.correction = target, target.event_shape, correction

    def _energy(self, x: Tensor) -> Tensor:
        centre = x.mean(-2)
        inside = self.target(x - centre.unsqueeze(-2))
        return inside + centre_energy(centre, self.event_shape[0], SIGMA, self.correction)


def log_z_of_a_quadratic(target: Target) -> float:
    """Return log Z of a quadratic energy by its Hessian."""
    size = target.event_shape.numel()
    origin = torch.zeros(size, dtype=torch.float64)
    flat = lambda x: target(x.reshape(target.event_shape))  # noqa: E731
    hessian = torch.autograd.functional.hessian(flat, origin)
    return float(-flat(origin) + 0.5 * size * math.log(2 * math.pi) - 0.5 * torch.logdet(hessian))


@pytest.mark.parametrize("n_atoms", [1, 2, 3, 6])
def test_log_z_is_that_over_centred_coordinates(n_atoms):
    springs = Springs(n_atoms)
    found = log_z_of_a_quadratic(Augmented(springs))
    assert found == pytest.approx(springs.log_z_centred, abs=1e-9)
    if n_atoms > 1:  # Control: without the constant it would be off by this much.
        assert 1.5 * math.log(n_atoms) > 1


def test_log_z_agrees_with_internal_coordinates():
    # Bond lengths a, b and the angle between them, by the trapezoid rule; springs between all three atoms.
    length = np.linspace(0, 1.6, 121)
    angle = np.linspace(0, np.pi, 121)
    a, b = length[:, None, None], length[None, :, None]
    energy = STIFFNESS * (a**2 + b**2 - a * b * np.cos(angle))
    over_angles = np.trapezoid(np.sin(angle) * np.exp(-energy), angle, axis=-1)
    z_internal = np.trapezoid(np.trapezoid(length**2 * over_angles, length) * length**2, length)
    found = Springs(3).log_z_centred - math.log(z_internal)
    assert found == pytest.approx(rigid_body_log_volume(3), abs=1e-3)


@pytest.mark.parametrize("n_atoms", [2, 5])
def test_ess_of_a_perfect_model_is_one_or_three_fifths(n_atoms):
    springs, n = Springs(n_atoms), 200_000
    draw = generator(0, "samples")
    shifts = SIGMA * torch.randn(n, 1, 3, generator=draw, dtype=torch.float64)
    x = springs.sample_centred(n, draw) + shifts
    gaussian = Augmented(springs)
    log_prob = -gaussian(x) - springs.log_z_centred
    weights = LogWeights.from_samples(log_prob, gaussian(x))
    assert weights.ess_fraction == pytest.approx(1.0, abs=1e-9)
    assert weights.log_mean() == pytest.approx(springs.log_z_centred, abs=1e-9)
    chi = LogWeights.from_samples(log_prob, Augmented(springs, "chi")(x))
    estimate = ess_interval(chi)
    assert estimate.value == pytest.approx(0.6, abs=4 * estimate.standard_error)
    assert 4 * estimate.standard_error < 0.01  # 3/5 is told apart from 0.59 or 0.61
    assert chi.log_mean() == pytest.approx(springs.log_z_centred, abs=4 * chi.log_mean_error())


def test_chi_is_the_published_correction():
    # log q + |x̄|²/2σ² − log[|x̄|²/(√2 σ³ Γ(3/2))] in place of log q, up to a constant.
    springs = Springs(4)
    x = torch.randn(30, 4, 3, generator=generator(0, "points"), dtype=torch.float64)
    squared = (x.mean(-2) ** 2).sum(-1)
    published = squared / (2 * SIGMA**2) - torch.log(squared / (math.sqrt(2) * SIGMA**3 * math.gamma(1.5)))
    apart = Augmented(springs, "chi")(x) - springs(x) - published
    assert apart.std() <= 1e-8
    # Control: the Gaussian correction is another function.
    assert (Augmented(springs)(x) - springs(x) - published).std() > 0.1


def test_density_of_the_centre_is_normalised():
    line = torch.linspace(-8, 8, 81, dtype=torch.float64) * SIGMA
    centres = torch.cartesian_prod(line, line, line)
    cell = float(line[1] - line[0]) ** 3
    for correction in ("gaussian", "chi"):
        total = torch.exp(-centre_energy(centres, 7, SIGMA, correction)).sum() * cell
        assert float(total) == pytest.approx(7**-1.5, rel=1e-9)


def test_the_chi_law_has_no_density_at_the_origin():
    assert centre_energy(torch.zeros(1, 3), 2, SIGMA, "chi").isposinf().all()
    assert centre_energy(torch.zeros(1, 3), 2, SIGMA).isfinite().all()
