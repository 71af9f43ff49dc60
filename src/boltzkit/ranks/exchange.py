"""How ranks put together what each has: sums, rows, gradients, and what the first rank says.

With one rank every function returns what it was given. Nothing is pickled: ranks exchange tensors and JSON.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch import distributed as dist

from boltzkit.errors import UserError
from boltzkit.ranks.lost import answering
from boltzkit.ranks.place import is_first_rank, rank_count, rank_number, share

__all__ = [
    "add_over_ranks",
    "average_gradients",
    "by_first_rank",
    "copy_first_rank",
    "gather_ranks",
    "of_first_rank",
    "spread_over_ranks",
    "sum_over_ranks",
    "tensors_of_first_rank",
    "wait_for_ranks",
]

T = TypeVar("T")


def wait_for_ranks() -> None:
    """Wait until every rank is here."""
    add_over_ranks(0)


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
    with answering(), torch.no_grad():
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
    with answering():
        dist.all_reduce(total)
    return total


def _gathered(values: Tensor, lengths: Sequence[int], axis: int) -> Tensor:
    rows = values.detach().movedim(axis, 0)
    # Messages are equally long, and gloo knows no truth values.
    sent = rows.new_zeros(max(lengths), *rows.shape[1:])
    sent[: len(rows)] = rows
    sent = sent.to(torch.uint8) if values.dtype == torch.bool else sent
    received = [torch.empty_like(sent) for _ in lengths]
    with answering():
        dist.all_gather(received, sent)
    whole = torch.cat([part[:length] for part, length in zip(received, lengths, strict=True)])
    return whole.to(values.dtype).movedim(0, axis).contiguous()


def _kind(values: Tensor) -> str:
    return str(values.dtype).removeprefix("torch.")


def _no_rows(kind: str, device: str, shape: Sequence[int], axis: int) -> Tensor:
    without = [0 if place == axis else length for place, length in enumerate(shape)]
    return torch.zeros(without, dtype=getattr(torch, kind), device=device)
