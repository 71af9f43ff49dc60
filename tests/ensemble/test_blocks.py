"""Blocks: who belongs together, and the errors that follow."""

import numpy as np
import pytest
import torch

from boltzkit.ensemble import even_blocks, negative_log_likelihood, population, trajectory_blocks
from boltzkit.ensemble.blocks import jackknife_variance, sum_variance, summed
from boltzkit.weights import LogWeights


def test_many_trajectories_stay_whole():
    trajectory = np.random.default_rng(0).integers(0, 500, 10_000)
    frame = np.arange(10_000)
    block = trajectory_blocks(trajectory, frame).numpy()
    assert len(np.unique(block)) == 100
    assert all(len(np.unique(block[trajectory == t])) == 1 for t in range(500))


def test_few_trajectories_are_cut_into_contiguous_pieces():
    trajectory = np.repeat([7, 3], [3000, 1000])
    frame = np.concatenate([np.arange(3000)[::-1], np.arange(1000)])
    block = trajectory_blocks(trajectory, frame).numpy()
    assert len(np.unique(block)) == 100
    for t in (3, 7):
        in_time = block[trajectory == t][np.argsort(frame[trajectory == t])]
        # Each block once, without coming back.
        assert (np.diff(in_time) != 0).sum() + 1 == len(np.unique(in_time)) == 50
    assert not set(block[trajectory == 3]) & set(block[trajectory == 7])


def test_short_trajectories_leave_no_empty_block():
    block = trajectory_blocks(np.array([0, 0, 1]), np.array([1, 0, 0])).tolist()
    assert sorted(block) == [0, 1, 2]


def test_sums_and_variances():
    values, block = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([1, 0, 1])
    assert summed(values, block).tolist() == [2.0, 4.0]
    assert even_blocks(3, blocks=10).tolist() == [0, 1, 2]
    assert np.isnan(jackknife_variance(torch.tensor([1.0])))
    assert np.isnan(sum_variance(values, torch.zeros(3, dtype=torch.long)))
    # The jackknife of a mean is its usual variance.
    x = torch.randn(50, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    without = (x.sum() - x) / 49
    assert jackknife_variance(without) == pytest.approx(float(x.var()) / 50)
    assert sum_variance((x - x.mean()) / 50, torch.arange(50)) == pytest.approx(float(x.var()) / 50)


def walkers(seed: int, walkers: int = 40, frames: int = 50) -> tuple[torch.Tensor, torch.Tensor]:
    """Return numbers that are alike within a trajectory, and their blocks."""
    random = torch.Generator().manual_seed(seed)
    own = torch.randn(walkers, 1, generator=random, dtype=torch.float64)
    x = (own + 0.5 * torch.randn(walkers, frames, generator=random, dtype=torch.float64)).flatten()
    return x, torch.arange(walkers).repeat_interleave(frames)


def test_errors_of_correlated_data_cover():
    """95 % intervals from whole trajectories hold the truth; those that take samples for independent do not."""
    covered = {True: 0, False: 0}
    for seed in range(200):
        x, block = walkers(seed)
        for known in covered:
            found = negative_log_likelihood(x, block if known else None)
            covered[known] += abs(found.value) < 1.96 * found.standard_error
    assert 0.88 < covered[True] / 200 < 0.99
    assert covered[False] / 200 < 0.5


def test_populations_of_correlated_data_cover():
    covered = {True: 0, False: 0}
    for seed in range(200):
        x, block = walkers(seed)
        equal = LogWeights(torch.zeros(len(x), dtype=torch.float64), {})
        for known in covered:
            found = population(equal, x > 0, block=block if known else None)
            covered[known] += found.low < 0.5 < found.high
    assert 0.88 < covered[True] / 200 <= 0.99
    assert covered[False] / 200 < 0.5
