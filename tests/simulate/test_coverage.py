"""Errors of means: independent runs scatter as much as each of them says, and a naive error says too little."""

import math

import pytest
import torch
from torch import Tensor

from boltzkit.data import autocorrelation_time
from boltzkit.energy import Target
from boltzkit.simulate import PlainSpace, Tempering, TemperingConfig
from boltzkit.simulate.agreement import conditional_mean

RUNS, WALKERS, FRAMES = 40, 16, 100
BARRIER = 3.0


class TwoAngles(Target):
    """Two independent angles: u = −a cos(x₀ + 1) − 2 cos(2 x₁); the far side of x₀ is rare."""

    name = "two angles"
    event_shape = torch.Size([2])

    def _energy(self, x: Tensor) -> Tensor:
        return -BARRIER * torch.cos(x[..., 0] + 1) - 2 * torch.cos(2 * x[..., 1])


class Torus(PlainSpace):
    """Angles that a turn changes one at a time, the same one for all walkers, as bonds of a molecule are."""

    turns = 2

    def turn(self, y: Tensor, index: int, angle: Tensor) -> Tensor:
        turned = y.clone()
        turned[..., index] += angle
        return turned


@pytest.fixture(scope="module")
def runs() -> Tensor:
    """Angles of independent runs from one start, ``(runs, walkers, frames, 2)``."""
    space, found = Torus(TwoAngles()), []
    for seed in range(RUNS):
        run = Tempering.start(
            space, TemperingConfig(walkers=WALKERS, leaps=2, step=0.05, turns=1, seed=seed), torch.zeros(1, 2)
        )
        for _ in run.run(60):
            pass
        found.append(torch.stack([sweep.y for sweep in run.run(FRAMES)], dim=1))
    return torch.stack(found).double()


def observed(runs: Tensor) -> dict[str, Tensor]:
    return {
        "cos x₀": runs[..., 0].cos(),
        "sin x₁": runs[..., 1].sin(),
        "rare side": (torch.cos(runs[..., 0] + 1) < -0.2).double(),
    }


def inflation(series: Tensor, errors: Tensor) -> float:
    """Return the variance of the runs' means over that which their errors predict."""
    return float(series.mean((1, 2)).var() / errors.square().mean())


# 40 runs tell a variance to ±22 %: three standard errors on either side.
LOW, HIGH = 1 - 3 * math.sqrt(2 / RUNS), 1 + 3 * math.sqrt(2 / RUNS)


@pytest.mark.parametrize("name", ["cos x₀", "sin x₁", "rare side"])
def test_runs_scatter_as_their_errors_say(runs: Tensor, name: str) -> None:
    series = observed(runs)[name]
    n = series[0].numel()
    times = torch.tensor([autocorrelation_time(run) for run in series]).double()
    naive = series.flatten(1).std(dim=1) / math.sqrt(n)
    assert LOW < inflation(series, naive * times.sqrt()) < HIGH
    assert inflation(series, naive) > HIGH  # the control: frames are not independent


def test_the_error_of_a_conditional_mean_covers(runs: Tensor) -> None:
    found = [conditional_mean(run[..., 0].sin(), torch.cos(run[..., 1]) > 0) for run in runs]
    means, errors = torch.tensor(found).double().T
    ratio = float(means.var() / errors.square().mean())
    assert LOW - 0.2 < ratio < HIGH  # the larger of two estimates: a little on the safe side
    assert 4 * ratio > HIGH  # the control: half the error would be seen


def test_means_are_the_exact_ones(runs: Tensor) -> None:
    """⟨cos(x₀ + 1)⟩ = I₁(a)/I₀(a); started elsewhere, it is another number."""
    a = torch.tensor(BARRIER, dtype=torch.float64)
    exact = float(torch.special.i1(a) / torch.special.i0(a))
    means = torch.cos(runs[..., 0] + 1).mean((1, 2))
    error = float(means.std()) / math.sqrt(RUNS)
    assert abs(float(means.mean()) - exact) < 4 * error
    assert abs(math.cos(1.0) - exact) > 4 * error
