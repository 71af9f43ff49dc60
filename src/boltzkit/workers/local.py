"""Worker processes of this machine, as an executor that knows which item a lost process had."""

import contextlib
import multiprocessing as mp
import multiprocessing.connection
import os
import signal
import threading
import time
from collections.abc import Callable, Collection
from concurrent.futures import Executor, Future
from functools import partial
from multiprocessing.process import BaseProcess
from queue import SimpleQueue
from typing import Any

from boltzkit.workers.item import HUNG, Item, Order, Outcome, Tell, perform
from boltzkit.workers.workers import Loss, Workers

__all__ = ["LocalProcesses", "LocalWorkers", "WorkerLost"]

_Call = tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]


class WorkerLost(Exception):
    """A process ended in the middle of an item, or could not be started for it."""

    def __init__(self, code: int | None, why: str | None = None) -> None:
        super().__init__(why or f"exit code {code}")
        self.code = code


class LocalProcesses(Executor):
    """Processes that take one call at a time; functions are called with a further keyword ``tell``.

    The executors of the standard library fail all calls when one process dies, and cannot say whose it was.

    Args:
        n: processes.
        lasting: whether a process takes further calls; a training rather starts in a new one.
        tell: called, in threads of this process, with what workers say.
    """

    def __init__(self, n: int, lasting: bool, tell: Tell) -> None:
        self._lasting, self._tell = lasting, tell
        self._calls: SimpleQueue[tuple[Future[Any], _Call] | None] = SimpleQueue()
        self._busy: set[BaseProcess] = set()
        self._lock = threading.Lock()
        self._threads = [threading.Thread(target=self._serve, daemon=True) for _ in range(n)]
        for thread in self._threads:
            thread.start()

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> "Future[Any]":
        """Hand over a call; function and arguments must be importable and plain."""
        future: Future[Any] = Future()
        self._calls.put((future, (fn, args, kwargs)))
        return future

    def terminate(self) -> None:
        """Send SIGTERM to all processes that are at work: a training saves its state and stops."""
        with self._lock:
            for process in self._busy:
                process.terminate()

    def kill(self) -> None:
        """End all processes that are at work, whatever they do."""
        with self._lock:
            for process in self._busy:
                process.kill()

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """End the processes when they have done what was handed over."""
        for _ in self._threads:
            self._calls.put(None)
        if wait:
            for thread in self._threads:
                thread.join()

    def _serve(self) -> None:
        """Look after one process at a time."""
        worker: _Worker | None = None
        while (task := self._calls.get()) is not None:
            future, call = task
            if not future.set_running_or_notify_cancel():
                continue
            try:
                worker = worker or _Worker()
            except OSError as error:  # no memory, or no more processes
                future.set_exception(WorkerLost(None, f"it could not start: {error.strerror}"))
                continue
            with self._lock:
                self._busy.add(worker.process)
            try:
                finish = partial(future.set_result, worker.call(call, self._tell))
                lost = False
            except (EOFError, OSError):
                finish = partial(future.set_exception, WorkerLost(worker.end()))
                lost = True
            with self._lock:
                self._busy.discard(worker.process)
            if lost or not self._lasting:
                worker.end()
                worker = None
            finish()
        if worker is not None:
            worker.end()


class _Worker:
    """One process and the pipe to it."""

    def __init__(self) -> None:
        context = mp.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self.process: BaseProcess = context.Process(target=_work, args=(theirs,), name="boltzkit worker")
        self.process.start()
        theirs.close()  # otherwise this process would never see the end of the pipe

    def call(self, call: _Call, tell: Tell) -> Any:
        """Return a call's result; EOFError or OSError if the process ends before."""
        self._pipe.send(call)
        while True:
            kind, content = self._pipe.recv()
            if kind == "result":
                return content
            tell(content)

    def end(self) -> int | None:
        """Close the pipe, at which an idle process ends, and return the exit code."""
        self._pipe.close()
        self.process.join()
        return self.process.exitcode


def _work(pipe: Any) -> None:
    """Take calls until the pipe closes; runs in the process."""
    # Ctrl-C reaches the whole group: the process that sends the work decides what becomes of it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_stop_with_the_parent, daemon=True).start()

    def tell(text: str) -> None:
        pipe.send(("told", text))

    with contextlib.suppress(EOFError, BrokenPipeError):
        while True:
            function, args, kwargs = pipe.recv()
            pipe.send(("result", function(*args, **kwargs, tell=tell)))


def _stop_with_the_parent() -> None:
    parent = mp.parent_process()
    assert parent is not None, "workers are started by a process"
    multiprocessing.connection.wait([parent.sentinel])
    os.kill(os.getpid(), signal.SIGTERM)  # nobody is left to read the result: save and stop


class LocalWorkers(Workers):
    """Processes of this machine, one thread each.

    Args:
        n: processes.
        lasting: as for `LocalProcesses`.
        timeout: seconds that an item may take.
        tries: how many workers one item may cost.
    """

    def __init__(self, n: int, lasting: bool = True, timeout: float | None = None, tries: int = 3) -> None:
        self.messages, self.tries, self._n, self._timeout = SimpleQueue(), tries, n, timeout
        self.executor = self._processes = LocalProcesses(n, lasting, self.messages.put)

    @property
    def slots(self) -> int:
        """The processes."""
        return self._n

    def submit(self, item: Item) -> "Future[Outcome]":
        """Hand an item over."""
        return self._processes.submit(perform, Order(item, self._timeout).plain())

    def loss(self, error: BaseException) -> Loss | None:
        """Say how a process ended."""
        if not isinstance(error, WorkerLost):
            return None
        return Loss(f"more than {self._timeout:g} s passed" if error.code == HUNG else str(error))

    def stop(self, futures: Collection["Future[Outcome]"], tell: Tell) -> None:
        """Send SIGTERM until all have ended: one that comes between two trainings of an item goes unheard."""
        for future in futures:
            future.cancel()
        try:
            while not all(future.done() for future in futures):
                self._processes.terminate()
                self.relay(tell)
                time.sleep(0.2)
        except KeyboardInterrupt:  # the second Ctrl-C
            self._processes.kill()
            raise

    def close(self) -> None:
        """End the processes."""
        self.executor.shutdown()
