"""Timing several contenders so that a busy machine disturbs them alike."""

import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

import torch

__all__ = ["interleaved", "on_threads"]


@contextmanager
def on_threads(n: int) -> Iterator[None]:
    """Let torch use n threads, then as many as before."""
    before = torch.get_num_threads()
    torch.set_num_threads(n)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def interleaved(
    contenders: Mapping[str, Callable[[], object]],
    rounds: int,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, float]:
    """Return the median seconds of each contender over rounds in which each runs once.

    The first call of each is not timed: it may compile, start workers or fill caches.

    Args:
        contenders: what to time, by name.
        rounds: how often.
        clock: in seconds; that of the processor (``time.process_time``) where one thread works alone.
    """
    for run in contenders.values():
        run()
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(rounds):
        for name, run in contenders.items():
            start = clock()
            run()
            seconds[name].append(clock() - start)
    return {name: statistics.median(values) for name, values in seconds.items()}
