"""Which of the ranks this process is, and which rows are its own."""

from torch import distributed as dist

__all__ = ["is_first_rank", "rank_count", "rank_number", "share"]


def rank_count() -> int:
    """Return the number of ranks."""
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


def rank_number() -> int:
    """Return the number of this rank, from 0."""
    return dist.get_rank() if rank_count() > 1 else 0


def is_first_rank() -> bool:
    """Whether this is the rank that writes files and speaks."""
    return rank_number() == 0


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
