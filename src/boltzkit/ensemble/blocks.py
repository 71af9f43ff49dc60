"""Errors of any estimate from samples in blocks: leave one block out at a time and see how the estimate moves.

Samples of a flow are independent, and any hundred equal parts will do. Data come in trajectories whose samples
resemble each other: a block is then made of whole trajectories, or of long pieces where there are only a few.
"""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

__all__ = ["BLOCKS", "even_blocks", "jackknife_variance", "sum_variance", "summed", "trajectory_blocks"]

BLOCKS = 100
"""The error of an error from so many blocks is 7 %."""
_MANY = 20
"""Fewer trajectories than this are cut into pieces: a spread over a few numbers says little."""


def even_blocks(n: int, blocks: int = BLOCKS) -> Tensor:
    """Return the block of each of n independent samples, ``(n,)``.

    >>> even_blocks(5, blocks=2).tolist()
    [0, 0, 0, 1, 1]
    """
    return torch.arange(n) * min(blocks, n) // max(n, 1)


def trajectory_blocks(
    trajectory: NDArray[np.int64], frame: NDArray[np.int64], blocks: int = BLOCKS
) -> Tensor:
    """Return the block of each sample of some trajectories, ``(n,)``: samples of one block stay together.

    With 20 trajectories or more a block holds whole ones. Fewer are cut into contiguous pieces, each long enough
    to count as independent only if trajectories are much longer than their correlation time.

    Args:
        trajectory: number of the trajectory of each sample.
        frame: where in the trajectory it is.
        blocks: at most so many.
    """
    order = np.lexsort((frame, trajectory))
    _, rank, counts = np.unique(trajectory, return_inverse=True, return_counts=True)
    if len(counts) >= _MANY:
        return torch.from_numpy(rank % min(blocks, len(counts)))
    pieces = blocks // max(len(counts), 1)
    place = np.empty(len(order), dtype=np.int64)
    starts = np.repeat(np.cumsum(counts) - counts, counts)
    place[order] = (np.arange(len(order)) - starts) * pieces // np.repeat(counts, counts)
    # Short trajectories have fewer samples than pieces: number the blocks that exist.
    _, block = np.unique(rank * pieces + place, return_inverse=True)
    return torch.from_numpy(block)


def summed(values: Tensor, block: Tensor) -> Tensor:
    """Return the sum over each block, ``(n, ...) -> (blocks, ...)``, in float64."""
    total = torch.zeros(int(block.max()) + 1, *values.shape[1:], dtype=torch.float64)
    return total.index_add_(0, block, values.double())


def sum_variance(moves: Tensor, block: Tensor) -> float:
    r"""Return the variance of an estimate that sample i moves by ψ_i, ``(n,)``, when blocks are independent.

    $$\frac{G}{G-1}\sum_g \Big(\sum_{i\in g} \psi_i\Big)^2$$

    NaN for a single block.
    """
    sums, count = summed(moves, block), int(torch.unique(block).numel())
    return float(sums.square().sum()) * count / (count - 1) if count > 1 else float("nan")


def jackknife_variance(without: Tensor) -> float:
    r"""Return $\frac{G-1}{G}\sum_g (T_{(g)} - \bar T)^2$ of estimates that leave out one of G blocks each, ``(G,)``.

    NaN for a single block. On average it is not below the true variance of the estimate (Efron and Stein, 1981).
    """
    count = len(without)
    if count < 2:
        return float("nan")
    return float((without - without.mean()).square().sum()) * (count - 1) / count
