"""What becomes of a rank whose others are gone or silent: one sentence."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

from boltzkit.errors import UserError

__all__ = ["RankLost", "answering"]


class RankLost(UserError):
    """Another rank has ended or does not answer; this one cannot go on alone."""


@contextmanager
def answering() -> Iterator[None]:
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
