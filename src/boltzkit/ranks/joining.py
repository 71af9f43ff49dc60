"""How processes that torchrun started come together, and part."""

import datetime
import os
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import distributed as dist

from boltzkit.ranks.exchange import wait_for_ranks
from boltzkit.ranks.lost import answering

__all__ = ["first_to_tell", "join_ranks"]

_ENVIRONMENT = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
_TIMEOUT = "BOLTZKIT_RANK_TIMEOUT"
"""Seconds that a rank waits for the others before it takes them for lost."""
_meeting: list[Any] = []
"""The store where ranks met; it outlives them under torchrun, and so can tell who was first to fail."""


@contextmanager
def join_ranks() -> Iterator[None]:
    """Be one of several ranks where torchrun's environment says so, else alone.

    Tensors on the CPU travel by gloo, those on a GPU by NCCL; ``cuda`` then means the GPU of the rank's own number.
    """
    if not all(name in os.environ for name in _ENVIRONMENT) or int(os.environ["WORLD_SIZE"]) == 1:
        yield
        return
    seconds = float(os.environ.get(_TIMEOUT, "600"))
    timeout = datetime.timedelta(seconds=seconds)
    backend = "gloo"
    if torch.cuda.is_available():
        backend = "cpu:gloo,cuda:nccl"
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")) % torch.cuda.device_count())
    from torch.distributed.rendezvous import rendezvous  # which some builds of torch lack

    with answering():
        store, own, count = next(rendezvous("env://", timeout=timeout))
        store = dist.PrefixStore(_password(store, own, count, seconds), store)  # type: ignore[attr-defined]
        dist.init_process_group(backend, store=store, rank=own, world_size=count, timeout=timeout)
    _meeting.append(store)
    try:
        yield
        wait_for_ranks()
        dist.destroy_process_group()
    finally:
        # After an error the group is left as it is: to take leave would be to wait for ranks that may be gone.
        _meeting.clear()


def first_to_tell() -> bool:
    """Whether no other rank has told of a failure yet: one sentence is enough for all."""
    if not _meeting:
        return True
    try:
        return bool(_meeting[0].add("told", 1) == 1)
    except RuntimeError:  # the store is gone with its owner
        return True


def _password(store: Any, own: int, count: int, seconds: float) -> str:
    """Return a word that the ranks of this start share, and that those of an earlier one did not.

    After a restart torchrun's store still holds where the ranks before were to be reached, and a rank that reads this
    in the place of what another is about to write waits for the dead. So the first rank calls the roll of all that are
    here, each answers to the roll that has its own fresh name, and once all have answered, its word counts.
    """
    name, end = uuid.uuid4().hex, time.monotonic() + seconds
    store.set(f"here {own}", name)
    while time.monotonic() < end:
        if own == 0:
            roll = ",".join(_written(store, f"here {other}") for other in range(count))
            store.set("roll", roll)
            if all(_written(store, f"answer {other}") == roll for other in range(1, count)):
                store.set("word", roll)
                return roll.split(",")[0]
        elif name in (roll := _written(store, "roll")).split(","):
            store.set(f"answer {own}", roll)
            if _written(store, "word") == roll:
                return roll.split(",")[0]
        time.sleep(0.02)
    raise RuntimeError("timed out while ranks were coming together")


def _written(store: Any, key: str) -> str:
    """Return what a store has under a key, nothing where it has none."""
    return bytes(store.get(key)).decode() if store.check([key]) else ""
