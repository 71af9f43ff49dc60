"""Which workers: processes of this machine, or those of a dask scheduler."""

from collections.abc import Iterator
from contextlib import contextmanager

from pydantic import Field, PositiveFloat

from boltzkit.config import Config
from boltzkit.workers.item import Tell
from boltzkit.workers.local import LocalWorkers
from boltzkit.workers.workers import Workers

__all__ = ["WorkerOptions", "open_workers", "workers_if_asked"]


class WorkerOptions(Config):
    """Where work runs."""

    workers: int = Field(1, ge=1)
    """Worker processes of this machine, one thread each."""
    dask: str | None = None
    """Address or file of a dask scheduler, whose workers are taken instead."""
    timeout: PositiveFloat | None = None
    """Seconds after which an item counts as hung and is tried again elsewhere."""
    tries: int = Field(3, ge=1)
    """How many local workers one item may cost; a dask scheduler has its own number."""

    @property
    def elsewhere(self) -> bool:
        """Whether work leaves this process."""
        return self.workers > 1 or self.dask is not None or self.timeout is not None


@contextmanager
def open_workers(
    options: WorkerOptions, tell: Tell = lambda text: None, *, lasting: bool = True
) -> Iterator[Workers]:
    """Yield workers; they are let go at the end of the block.

    Args:
        options: which.
        tell: called with a line on a scheduler.
        lasting: whether a local process takes several items; dask's always do.
    """
    workers: Workers
    if options.dask is not None:
        from boltzkit.workers.dask_workers import DaskWorkers

        workers = DaskWorkers(options.dask, options.timeout)
        tell(workers.greeting)
    else:
        workers = LocalWorkers(options.workers, lasting, options.timeout, options.tries)
    try:
        yield workers
    finally:
        workers.close()


@contextmanager
def workers_if_asked(options: WorkerOptions, tell: Tell = lambda text: None) -> Iterator[Workers | None]:
    """Yield workers, or None where one process without a timeout was asked for: this one does the work."""
    if not options.elsewhere:
        yield None
        return
    with open_workers(options, tell) as workers:
        yield workers
