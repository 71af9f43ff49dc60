"""Work on other processes and machines: items of plain data through a `concurrent.futures.Executor`."""

from boltzkit.workers.item import Item, Tell
from boltzkit.workers.open import WorkerOptions, open_workers, workers_if_asked
from boltzkit.workers.run import run_items
from boltzkit.workers.workers import Workers

__all__ = ["Item", "Tell", "WorkerOptions", "Workers", "open_workers", "run_items", "workers_if_asked"]
