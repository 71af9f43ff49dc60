"""Block-shuffled epochs: every sample once, reproducible, and well mixed."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from boltzkit.data.order import BlockOrder


def epoch(order, seed=0, number=0):
    windows = -(-order.size // order.window)
    return np.concatenate([order.samples(seed, number, window) for window in range(windows)])


@given(
    size=st.integers(1, 300), window=st.integers(1, 320), block=st.integers(1, 40), number=st.integers(0, 5)
)
def test_every_sample_once_per_epoch(size, window, block, number):
    visited = epoch(BlockOrder(size, window, block), 3, number)
    assert np.sort(visited).tolist() == list(range(size))


def test_the_order_follows_from_seed_and_epoch():
    order = BlockOrder(1000, 256, 16)
    assert np.array_equal(epoch(order, 1, 2), epoch(order, 1, 2))
    # Controls: another seed or epoch is another order.
    assert not np.array_equal(epoch(order, 1, 2), epoch(order, 2, 2))
    assert not np.array_equal(epoch(order, 1, 2), epoch(order, 1, 3))


def worst_correlation(visited, size, batch=100):
    """How far the mean of a slow drift over a batch strays, in units of what independent draws give."""
    drift = np.cos(2 * np.pi * visited / size)
    means = drift[: len(drift) // batch * batch].reshape(-1, batch).mean(1)
    return means.std() / (drift.std() / np.sqrt(batch))


def test_batches_of_a_correlated_trajectory_are_as_good_as_independent():
    size = 20_000
    order = BlockOrder(size, 4000, 20)
    assert worst_correlation(epoch(order), size) == pytest.approx(1.0, abs=0.25)
    # Controls: the order of time, and blocks too long for the window, are seen to mix badly.
    assert worst_correlation(np.arange(size), size) > 5
    assert worst_correlation(epoch(BlockOrder(size, 4000, 2000)), size) > 2


def test_neighbours_do_not_always_travel_together():
    order = BlockOrder(100, 10, 10)
    first = [{frozenset(order.samples(0, number, window)) for window in range(10)} for number in range(2)]
    assert first[0] != first[1]
