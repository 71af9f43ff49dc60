"""Workers of a dask scheduler: any cluster that dask runs on, through the same executor interface."""

import importlib
import time
import uuid
from collections.abc import Collection, Mapping
from concurrent.futures import CancelledError, Future
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from boltzkit.errors import UserError
from boltzkit.interrupt import stop_asked_by
from boltzkit.workers.item import Item, Order, Outcome, Tell, perform
from boltzkit.workers.workers import Loss, Workers

__all__ = ["DaskWorkers", "perform_on_dask"]

_PATIENCE = 300.0
"""Seconds that items are given to save and stop."""
_ANSWER = "10s"
"""How long to wait for a scheduler."""


class DaskWorkers(Workers):
    """The workers of a scheduler, however many there are at a time.

    The scheduler gives an item whose worker is lost to another one; after its own number of losses
    (``distributed.scheduler.allowed-failures``) it gives up.

    Args:
        address: ``tcp://host:port``, ``host:port``, or the path of a scheduler file.
        timeout: seconds that an item may take.
    """

    tries = 1

    def __init__(self, address: str, timeout: float | None = None) -> None:
        self.address, self._timeout, self.messages = address, timeout, SimpleQueue()
        self._client = _connect(address)
        self.executor = self._client.get_executor(pure=False)
        self._topic = f"boltzkit-{uuid.uuid4().hex}"
        self._running: dict[str, str] = {}
        """Orders that have begun and not ended -> address of their worker."""
        self._client.subscribe_topic(self._topic, self._hear)

    @property
    def greeting(self) -> str:
        """A line on who is there."""
        n = self.slots
        there = f"worker threads: {n}" if n else "no workers yet: work waits until there are some"
        return f"dask scheduler at {self._client.scheduler.address}, {there}."

    @property
    def slots(self) -> int:
        """Threads of all workers that are there now."""
        return sum(self._client.nthreads().values())

    def submit(self, item: Item) -> "Future[Outcome]":
        """Hand an item over."""
        return self.executor.submit(perform_on_dask, Order(item, self._timeout).plain(), self._topic)

    def loss(self, error: BaseException) -> Loss | None:
        """Say how dask lost its workers over an item, or that all of dask is lost."""
        if isinstance(error, importlib.import_module("distributed").KilledWorker):
            late = "" if self._timeout is None else f", or more than {self._timeout:g} s passed"
            return Loss(f"dask's word is KilledWorker{late}", error.allowed_failures + 1)
        if isinstance(error, CancelledError):
            raise UserError(
                f"The connection to the dask scheduler at {self.address} was lost: the same command goes on from what "
                "was saved."
            ) from error
        return None

    def stop(self, futures: Collection["Future[Outcome]"], tell: Tell) -> None:
        """Cancel all items; those that run notice it after their step, save, and say that they have ended."""
        for future in futures:
            future.cancel()
        end = time.monotonic() + _PATIENCE
        while self._still_running() and time.monotonic() < end:
            self.relay(tell)
            time.sleep(0.2)

    def close(self) -> None:
        """Leave the scheduler; its workers stay."""
        self._client.close()

    def _hear(self, event: tuple[float, Mapping[str, Any]]) -> None:
        """Take note of what a worker says; called in a thread of dask's."""
        content = event[1]
        if "told" in content:
            self.messages.put(content["told"])
        elif "began" in content:
            self._running[content["began"]] = content["worker"]
        elif "ended" in content:
            self._running.pop(content["ended"], None)

    def _still_running(self) -> bool:
        try:
            there = self._client.nthreads()  # a worker that is lost never says that it has ended
        except OSError:  # the scheduler is gone, and its workers stop by themselves
            return False
        return any(worker in there for worker in list(self._running.values()))


def perform_on_dask(order: Mapping[str, Any], topic: str) -> Outcome:
    """Do what an order says in a worker of dask's; lines go to whoever listens to the topic."""
    worker = importlib.import_module("distributed").get_worker()
    key, name = worker.get_current_task(), uuid.uuid4().hex

    def say(**content: str) -> None:
        worker.log_event(topic, {**content, "worker": worker.address})

    def cancelled() -> bool:
        """Tell whether nobody waits for the result any more: a stop, or a client that is gone."""
        task = worker.state.tasks.get(key)
        return task is None or task.state not in ("executing", "long-running")

    say(began=name)
    try:
        with stop_asked_by(cancelled):
            return perform(order, lambda text: say(told=text))
    finally:
        say(ended=name)


def _connect(address: str) -> Any:
    try:
        client = importlib.import_module("distributed").Client
    except ImportError as error:
        raise UserError("--dask needs dask.distributed: pip install 'boltzkit[dask]'.") from error
    is_file = Path(address).is_file()
    if not is_file and ":" not in address:
        raise UserError(
            f"--dask takes the address of a scheduler, such as tcp://host:8786, or its scheduler file, and there is no "
            f"file '{address}'."
        )
    place = {"scheduler_file": address} if is_file else {"address": address}
    try:
        return client(**place, timeout=_ANSWER, set_as_default=False, name="boltzkit")
    except (OSError, ValueError) as error:  # TimeoutError is an OSError
        raise UserError(f"No dask scheduler answers at {address}: is it running, and reachable?") from error
