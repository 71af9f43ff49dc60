"""The order in which an epoch visits samples that are too many to shuffle in memory."""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from boltzkit.randomness import generator

__all__ = ["BlockOrder"]


@dataclass(frozen=True)
class BlockOrder:
    """Shuffled blocks of neighbours, then shuffled samples within a window of many blocks.

    A window is read from disk at once, in pieces of a block, instead of in single rows from anywhere. Windows that
    hold all samples are plain shuffles. The order is a function of (seed, epoch): every sample comes once, and
    where blocks begin changes from epoch to epoch, so that two neighbours do not always travel together.

    Attributes:
        size: samples of an epoch.
        window: samples that are shuffled together.
        block: neighbours that are read together.
    """

    size: int
    window: int
    block: int

    def samples(self, seed: int, epoch: int, number: int) -> NDArray[np.int64]:
        """Return the sample numbers of one window of one epoch, in the order in which they are visited.

        >>> order = BlockOrder(size=10, window=6, block=2)
        >>> sorted([*order.samples(0, 3, 0), *order.samples(0, 3, 1)]) == list(range(10))
        True
        """
        random = generator(seed, "blocks", epoch)
        shift = int(torch.randint(self.size, (), generator=random))
        whole = torch.randperm(self.size // self.block, generator=random).numpy()
        # The remainder, shorter than a block, comes last.
        blocks = np.append(whole, len(whole))
        place = np.arange(number * self.window, min((number + 1) * self.window, self.size))
        index = blocks[place // self.block] * self.block + place % self.block
        mixed = torch.randperm(len(place), generator=generator(seed, f"window {number}", epoch)).numpy()
        visited: NDArray[np.int64] = ((index + shift) % self.size)[mixed]
        return visited
