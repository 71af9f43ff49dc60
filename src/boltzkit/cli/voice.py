"""Several ranks of one command speak with one voice."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from boltzkit.errors import Interrupted

__all__ = ["one_voice"]

_FAILED, _STOPPED = 2, 130
"""What ranks that keep silent end with: the exit codes of the one that speaks."""


@contextmanager
def one_voice() -> Iterator[None]:
    """Be a rank where torchrun says so; of all ranks that fail, the first one says why and the others end quietly."""
    if "WORLD_SIZE" not in os.environ:
        yield
        return
    from boltzkit.ranks import first_to_tell, is_first_rank, join_ranks, rank_count, wait_for_ranks

    with join_ranks():
        try:
            yield
        except Interrupted as error:
            if rank_count() == 1:
                raise
            if is_first_rank():
                print(f"boltzkit: {error}", file=sys.stderr, flush=True)
            # Together: torchrun ends those that are left as soon as one is gone.
            wait_for_ranks()
            raise SystemExit(_STOPPED) from error
        except Exception as error:
            if first_to_tell():
                raise
            raise SystemExit(_FAILED) from error
