"""Several processes that train one model: which of them this is, and how they put together what each has.

Under ``torchrun`` every process is a rank. With one rank every function here returns what it was given, so that
ordinary code runs as if this module were not there. Nothing is pickled: ranks exchange tensors and JSON.
"""

import datetime
import json
import os
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch import distributed as dist

from boltzkit.errors import UserError

__all__ = [
    "RankLost",
    "add_over_ranks",
    "average_gradients",
    "by_first_rank",
    "copy_first_rank",
    "first_to_tell",
    "gather_ranks",
    "is_first_rank",
    "join_ranks",
    "of_first_rank",
    "rank_count",
    "rank_number",
    "share",
    "spread_over_ranks",
    "sum_over_ranks",
    "tensors_of_first_rank",
    "wait_for_ranks",
]

T = TypeVar("T")

_ENVIRONMENT = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
_TIMEOUT = "BOLTZKIT_RANK_TIMEOUT"
"""Seconds that a rank waits for the others before it takes them for lost."""
_meeting: list[Any] = []
"""The store where ranks met; it outlives them under torchrun, and so can tell who was first to fail."""


class RankLost(UserError):
    """Another rank has ended or does not answer; this one cannot go on alone."""


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

    with _answering():
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


def rank_count() -> int:
    """Return the number of ranks."""
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


def rank_number() -> int:
    """Return the number of this rank, from 0."""
    return dist.get_rank() if rank_count() > 1 else 0


def is_first_rank() -> bool:
    """Whether this is the rank that writes files and speaks."""
    return rank_number() == 0


def first_to_tell() -> bool:
    """Whether no other rank has told of a failure yet: one sentence is enough for all."""
    if not _meeting:
        return True
    try:
        return bool(_meeting[0].add("told", 1) == 1)
    except RuntimeError:  # the store is gone with its owner
        return True


def wait_for_ranks() -> None:
    """Wait until every rank is here."""
    add_over_ranks(0)


def share(n: int, part: int | None = None, parts: int | None = None) -> slice:
    """Return which of n rows are this rank's; shares differ by at most one, and the first are the larger ones.

    Args:
        n: rows of all ranks.
        part: another part than that of this rank.
        parts: another number of parts than that of ranks.

    >>> [share(5, part, 2) for part in (0, 1)]
    [slice(0, 3, None), slice(3, 5, None)]
    """
    part, parts = rank_number() if part is None else part, rank_count() if parts is None else parts
    each, more = divmod(n, parts)
    start = part * each + min(part, more)
    return slice(start, start + each + (part < more))


def sum_over_ranks(values: Tensor) -> Tensor:
    """Return the sum over all ranks, the same on each.

    Differentiable: the gradient that comes back is the sum over ranks too, as if the losses of all ranks were added.
    They are all the same loss, which is why `average_gradients` divides by their number.
    """
    if rank_count() == 1:
        return values
    total: Tensor = _Sum.apply(values)  # type: ignore[no-untyped-call]
    return total


def add_over_ranks(number: int) -> int:
    """Return the sum of a whole number over all ranks."""
    return number if rank_count() == 1 else int(_reduced(torch.tensor(number)))


def gather_ranks(values: Tensor, axis: int = 0) -> Tensor:
    """Return the rows of all ranks along an axis, in the order of ranks; without gradient."""
    if rank_count() == 1:
        return values
    lengths = torch.zeros(rank_count(), dtype=torch.int64)
    lengths[rank_number()] = values.shape[axis]
    return _gathered(values, _reduced(lengths).tolist(), axis)


def spread_over_ranks(
    compute: Callable[[Tensor], Iterable[Tensor]], rows: Tensor, axis: int = 0
) -> tuple[Tensor, ...]:
    """Let each rank compute its share of rows, and give all results to all ranks; without gradient.

    Args:
        compute: rows -> results that have the same rows along the same axis. A rank without rows does not call it.
        rows: the same on every rank.
        axis: of the rows, counted from the front.
    """
    if rank_count() == 1:
        return tuple(compute(rows))
    n = rows.shape[axis]
    own = share(n)
    length = own.stop - own.start
    found = list(compute(rows.narrow(axis, own.start, length))) if length else []
    if n < rank_count():  # some have no rows, and ask the first what results look like
        forms: list[Any] = of_first_rank(
            [[_kind(part), part.device.type, list(part.shape)] for part in found]
        )
        found = found or [_no_rows(kind, device, shape, axis) for kind, device, shape in forms]
    lengths = [(part := share(n, other)).stop - part.start for other in range(rank_count())]
    return tuple(_gathered(part.detach(), lengths, axis) for part in found)


def of_first_rank(value: T) -> T:
    """Return what the first rank has; any value that JSON can hold."""
    if rank_count() == 1:
        return value
    content = torch.frombuffer(bytearray(json.dumps(value).encode()), dtype=torch.uint8)
    length = torch.tensor(len(content))
    copy_first_rank([length])
    content = content if is_first_rank() else torch.empty(int(length), dtype=torch.uint8)
    copy_first_rank([content])
    answer: T = json.loads(bytes(content.tolist()))
    return answer


def by_first_rank(action: Callable[[], T]) -> T:
    """Let the first rank act, and return its result (any value that JSON can hold) or raise its error everywhere."""
    if rank_count() == 1:
        return action()
    answer: dict[str, Any] = {}
    failure = None
    if is_first_rank():
        try:
            answer = {"value": action()}
        except UserError as error:
            answer, failure = {"error": str(error)}, error
    answer = of_first_rank(answer)
    if "error" in answer:
        raise failure or UserError(answer["error"])
    found: T = answer["value"]
    return found


def copy_first_rank(tensors: Iterable[Tensor]) -> None:
    """Overwrite tensors by those of the first rank."""
    if rank_count() == 1:
        return
    with _answering(), torch.no_grad():
        for tensor in (tensor for tensor in tensors if tensor.numel()):
            content = tensor.detach().contiguous()
            dist.broadcast(content, 0)
            if content.data_ptr() != tensor.data_ptr():
                tensor.copy_(content)


def tensors_of_first_rank(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the named tensors of the first rank, whatever the others have; theirs come on the CPU."""
    if rank_count() == 1:
        return dict(tensors)
    forms: list[Any] = of_first_rank(
        [[name, _kind(value), list(value.shape)] for name, value in tensors.items()]
    )
    if is_first_rank():
        found = {name: value.detach().cpu().contiguous() for name, value in tensors.items()}
    else:
        found = {name: torch.empty(shape, dtype=getattr(torch, kind)) for name, kind, shape in forms}
    copy_first_rank(found.values())
    return found


def average_gradients(parameters: Sequence[nn.Parameter]) -> None:
    """Replace gradients by their mean over ranks, in one message per precision and device."""
    if rank_count() == 1:
        return
    gradients = [p.grad for p in parameters if p.grad is not None]
    for kind in dict.fromkeys((g.dtype, g.device) for g in gradients):
        group = [g for g in gradients if (g.dtype, g.device) == kind]
        flat = _reduced(torch.cat([g.reshape(-1) for g in group])) / rank_count()
        for gradient, mean in zip(group, torch.split(flat, [g.numel() for g in group]), strict=True):
            gradient.copy_(mean.view_as(gradient))


class _Sum(torch.autograd.Function):
    """A sum over ranks, whose gradient is a sum over ranks."""

    @staticmethod
    def forward(ctx: Any, values: Tensor) -> Tensor:
        return _reduced(values)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        return _reduced(grad)


def _reduced(values: Tensor) -> Tensor:
    total = values.detach().clone(memory_format=torch.contiguous_format)
    with _answering():
        dist.all_reduce(total)
    return total


def _gathered(values: Tensor, lengths: Sequence[int], axis: int) -> Tensor:
    rows = values.detach().movedim(axis, 0)
    # Messages are equally long, and gloo knows no truth values.
    sent = rows.new_zeros(max(lengths), *rows.shape[1:])
    sent[: len(rows)] = rows
    sent = sent.to(torch.uint8) if values.dtype == torch.bool else sent
    received = [torch.empty_like(sent) for _ in lengths]
    with _answering():
        dist.all_gather(received, sent)
    whole = torch.cat([part[:length] for part, length in zip(received, lengths, strict=True)])
    return whole.to(values.dtype).movedim(0, axis).contiguous()


def _kind(values: Tensor) -> str:
    return str(values.dtype).removeprefix("torch.")


def _no_rows(kind: str, device: str, shape: Sequence[int], axis: int) -> Tensor:
    without = [0 if place == axis else length for place, length in enumerate(shape)]
    return torch.zeros(without, dtype=getattr(torch, kind), device=device)


@contextmanager
def _answering() -> Iterator[None]:
    """Turn what torch raises when a rank is gone or silent into one sentence."""
    try:
        yield
    except RuntimeError as error:
        silent = any(word in str(error).lower() for word in ("timed out", "timeout"))
        reason = "one of them does not answer" if silent else "one of them has ended"
        raise RankLost(
            f"Rank {os.environ.get('RANK')} of {os.environ.get('WORLD_SIZE')} lost the others ({reason}): look for "
            "what they said; the same command goes on from the last checkpoint."
        ) from error
