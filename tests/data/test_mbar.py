"""MBAR on a double well that is sampled exactly under springs: populations and free energies are known."""

import math

import numpy as np
import pytest

from boltzkit.data import mbar
from boltzkit.data.mbar import solve_mbar

GRID = np.linspace(-2.5, 2.5, 20_001)
CENTRES = np.linspace(-1.5, 1.5, 7)
SPRING = 15.0


def well(x):
    """Reduced: a barrier of 8 and a tilt that makes the right side rare."""
    return 8 * (x**2 - 1) ** 2 + 1.2 * x


def springs(x, centres=CENTRES):
    return 0.5 * SPRING * (x - centres[:, None]) ** 2


def draw(energy, n, rng):
    """Draw from exp(−energy) on the grid, exactly up to its spacing."""
    weight = np.exp(-(energy - energy.min()))
    return np.interp(rng.random(n), np.cumsum(weight) / weight.sum(), GRID)


def right_side():
    weight = np.exp(-well(GRID))
    return weight[GRID > 0].sum() / weight.sum()


def sampled(rng, sizes, centres=CENTRES):
    parts = [draw(well(GRID) + v, n, rng) for v, n in zip(springs(GRID, centres), sizes, strict=True)]
    return np.concatenate(parts), np.repeat(np.arange(len(centres)), sizes)


def population(x, log_weight):
    weight = np.exp(log_weight - log_weight.max())
    return weight[x > 0].sum() / weight.sum()


def weights(solution, bias):
    return solution.log_weight(bias, np.ones(bias.shape[1]))


def test_populations_and_free_energies_are_exact():
    sizes = [400, 300, 200, 500, 300, 400, 300]
    weighted, plain, free = [], [], []
    for seed in range(25):
        x, simulation = sampled(np.random.default_rng(seed), sizes)
        solution = solve_mbar(springs(x), simulation)
        weighted.append(population(x, weights(solution, springs(x))))
        plain.append((x > 0).mean())
        free.append(solution.free_energy)
        assert solution.link > 10
    error = np.std(weighted, ddof=1) / 5
    assert abs(np.mean(weighted) - right_side()) < 4 * error
    assert error < 0.1 * right_side()
    # The control: without weights the windows' sizes decide.
    assert abs(np.mean(plain) - right_side()) > 20 * np.std(plain, ddof=1) / 5
    exact = -np.log(np.exp(-well(GRID) - springs(GRID)).sum(1))
    exact -= exact[0]
    deviation = np.mean(free, 0)[1:] - exact[1:]
    assert (np.abs(deviation) < 4 * np.std(free, 0, ddof=1)[1:] / 5).all()


def test_it_solves_its_equations_and_agrees_with_pymbar():
    pymbar = pytest.importorskip("pymbar")
    x, simulation = sampled(np.random.default_rng(1), [150] * 7)
    bias = springs(x)
    solution = solve_mbar(bias, simulation)
    own = weights(solution, bias)
    referee = pymbar.MBAR(bias, np.full(7, 150), solver_protocol="robust")
    np.testing.assert_allclose(solution.free_energy, referee.f_k - referee.f_k[0], atol=1e-6)
    np.testing.assert_allclose(
        np.exp(own - np.logaddexp.reduce(own)),
        referee.weights()[:, 0] * np.exp(-referee.f_k[0] + bias[0]) / np.sum(
            referee.weights()[:, 0] * np.exp(-referee.f_k[0] + bias[0])
        ),
        rtol=1e-5,
    )  # fmt: skip


def test_samples_that_count_less_are_as_samples_that_are_fewer():
    """Each sample three times, counting a third each, is the same as each once."""
    x, simulation = sampled(np.random.default_rng(2), [100] * 7)
    once = solve_mbar(springs(x), simulation)
    thrice = solve_mbar(springs(np.tile(x, 3)), np.tile(simulation, 3), np.full(2100, 1 / 3))
    np.testing.assert_allclose(once.free_energy, thrice.free_energy, atol=1e-8)
    assert once.link == pytest.approx(thrice.link)


def test_energies_far_from_zero_do_not_overflow():
    x, simulation = sampled(np.random.default_rng(3), [200] * 7)
    offsets = np.array([0, 5e3, -3e3, 1e4, 0, 2e3, -8e3])[:, None]
    plain, shifted = solve_mbar(springs(x), simulation), solve_mbar(springs(x) + offsets, simulation)
    np.testing.assert_allclose(shifted.free_energy - offsets[:, 0], plain.free_energy, atol=1e-6)
    one, other = weights(plain, springs(x)), weights(shifted, springs(x) + offsets)
    np.testing.assert_allclose(other - other[0], one - one[0], atol=1e-6)


def test_windows_that_share_nothing_are_found_out():
    apart = np.array([-2.0, -1.7, 1.6, 1.9, 2.2])
    x, simulation = sampled(np.random.default_rng(4), [200] * 5, apart)
    stiff = 100 * 0.5 * (x - apart[:, None]) ** 2
    solution = solve_mbar(stiff, simulation)
    assert solution.link < 1
    left = solution.parts if solution.parts.sum() == 2 else ~solution.parts
    assert left.tolist() == [True, True, False, False, False]
    assert math.isfinite(float(weights(solution, stiff).sum()))


def test_a_single_simulation_is_reweighted_plainly():
    x = np.linspace(-1, 1, 50)
    solution = solve_mbar(springs(x, np.array([0.3])), np.zeros(50, dtype=int))
    expected = 0.5 * SPRING * (x - 0.3) ** 2
    found = weights(solution, expected[None])
    np.testing.assert_allclose(found - found[0], expected - expected[0], atol=1e-9)


def test_equations_that_are_not_solved_are_told(monkeypatch):
    x, simulation = sampled(np.random.default_rng(0), [400] * 7)
    assert solve_mbar(springs(x), simulation).solved
    monkeypatch.setattr(mbar, "_STEPS", 1)
    stopped = solve_mbar(springs(x), simulation)
    assert not stopped.solved
    assert stopped.error > 1e-3
