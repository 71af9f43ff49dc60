"""Reduced energies by OpenMM itself: the referee of the torch force field, and its fallback."""

import contextlib
import json
import math
import os
import subprocess
import sys
import threading
import weakref
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue
from typing import IO, Self, cast, final

import numpy as np
import openmm
import torch
from torch import Tensor

from boltzkit.energy import openmm_worker
from boltzkit.energy.constants import BOLTZMANN
from boltzkit.energy.openmm_worker import Array, Engine, Results, read_frame, write_frame
from boltzkit.energy.regularised import regularise
from boltzkit.energy.supplied_gradient import differentiable
from boltzkit.energy.target import Target
from boltzkit.energy.unit_guard import UnitGuard
from boltzkit.energy.validation import at_least, positive
from boltzkit.errors import UserError

__all__ = ["OpenMMEnergy"]

_ATTEMPTS = 3
"""Workers that one chunk may cost."""
_PATIENCE = 5.0
"""Seconds that a worker is given to end by itself."""


@final
class OpenMMEnergy(Target):
    """Reduced energies u = E/k_BT of any OpenMM System, one OpenMM call per configuration.

    With ``workers=N``, batches are cut into chunks for N worker processes of one thread each; a chunk whose worker
    dies goes to a new one. They start at the first call and end with `close`, at the end of a ``with`` block, when
    the energy is no longer used, or when this process ends, however it ends.

    Args:
        system: an OpenMM System; it is copied.
        temperature: in kelvin.
        platform: ``"Reference"`` (float64) or ``"CPU"`` (mostly float32), or another that OpenMM has.
        workers: worker processes; 0 evaluates in this process.
        regularised: pass energies through the paper's regularisation.
        chunk: configurations sent to a worker at a time, at most.
        timeout: seconds after which a worker that has not answered is taken for hung, and ended.
        name: how messages call the molecule.

    Attributes:
        failures: what OpenMM said of configurations it could not evaluate, whose energies are NaN -> how often.
    """

    def __init__(
        self,
        system: openmm.System,
        temperature: float = 300.0,
        *,
        platform: str = "Reference",
        workers: int = 0,
        regularised: bool = True,
        chunk: int = 256,
        timeout: float = 600.0,
        name: str = "molecule",
    ) -> None:
        self.name, self.regularised = name, regularised
        self.temperature = positive(temperature, name, "temperature")
        self.chunk = at_least(chunk, 1, name, "chunks")
        self.timeout = positive(timeout, name, "timeout")
        self.event_shape = torch.Size([system.getNumParticles(), 3])
        self.failures: Counter[str] = Counter()
        self._guard = UnitGuard(system, name)
        # Made in any case: a System or platform that does not work is refused here, not by workers dying later.
        engine = _engine(system, platform, name)
        self._engine = None if at_least(workers, 0, name, "workers") else engine
        order = {"system": openmm.XmlSerializer.serialize(system), "platform": platform}
        self._workers = [_Worker(json.dumps(order).encode()) for _ in range(workers)]
        self._idle: SimpleQueue[_Worker] = SimpleQueue()
        for worker in self._workers:
            self._idle.put(worker)
        weakref.finalize(self, _close, self._workers)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def worker_ids(self) -> list[int]:
        """Process ids of the workers that are running."""
        return [process.pid for worker in self._workers if (process := worker.process) is not None]

    def close(self) -> None:
        """End the worker processes; a later call would start new ones."""
        _close(self._workers)

    def _energy(self, x: Tensor) -> Tensor:
        flat = x.reshape(-1, *self.event_shape).cpu()
        energy = differentiable(self._evaluate, flat) / (BOLTZMANN * self.temperature)
        self._guard.check(flat, energy)
        if self.regularised:
            energy = regularise(energy)
        return energy.to(x.dtype).to(x.device).reshape(x.shape[:-2])

    def _evaluate(self, x: Tensor, gradient: bool) -> tuple[Tensor, Tensor]:
        """Return energies in kJ/mol and gradients in kJ/mol/nm, in float64."""
        positions = x.to(torch.float64).numpy()
        if self._engine is not None:
            energy, slope, failures = self._engine.evaluate(positions, gradient)
        else:
            energy, slope, failures = self._distribute(positions, gradient)
        self.failures.update(failures)
        return torch.from_numpy(energy), torch.from_numpy(slope)

    def _distribute(self, x: Array, gradient: bool) -> Results:
        """Give chunks to whichever worker is idle, one thread waiting for each, and join the answers in order."""
        size = min(self.chunk, max(1, math.ceil(len(x) / len(self._workers))))

        def work(start: int) -> Results:
            worker = self._idle.get()
            try:
                return _with_retries(worker, x[start : start + size], gradient, start, self)
            finally:
                self._idle.put(worker)

        with ThreadPoolExecutor(len(self._workers)) as threads:
            # At least one chunk: the answer to an empty batch has a shape too.
            parts = list(threads.map(work, range(0, max(len(x), 1), size)))
        energies, slopes, failures = zip(*parts, strict=True)
        return np.concatenate(energies), np.concatenate(slopes), [text for part in failures for text in part]


def _engine(system: openmm.System, platform: str, name: str) -> Engine:
    try:
        return Engine(system, platform)
    except openmm.OpenMMException as error:
        reason = str(error).rstrip(". ")
        raise UserError(f"OpenMM cannot evaluate {name} on its {platform} platform: {reason}.") from error


def _with_retries(worker: "_Worker", x: Array, gradient: bool, start: int, energy: OpenMMEnergy) -> Results:
    """Evaluate a chunk on a worker that is started anew when it dies or hangs, a few times at most."""
    ended: int | None = None
    for _ in range(_ATTEMPTS):
        try:
            return worker.evaluate(x, gradient, energy.timeout)
        except (EOFError, BrokenPipeError):
            ended = worker.close()
        except BaseException:
            worker.close()  # its pipes may hold half an answer, which nobody must take for the next one
            raise
    raise UserError(
        f"{energy.name}: rows {start} to {start + len(x) - 1} of the batch ended {_ATTEMPTS} OpenMM worker processes "
        f"in a row (exit code {ended}; a worker has {energy.timeout:g} s to answer): look at these configurations, and "
        "at the memory this machine has left."
    )


def _close(workers: Sequence["_Worker"]) -> None:
    for worker in workers:
        worker.close()


class _Worker:
    """A worker process seen from here, started when it is needed.

    A plain child with two pipes, not one of multiprocessing's: those import the user's main script once more.
    """

    def __init__(self, order: bytes) -> None:
        self._order = order
        self.process: subprocess.Popen[bytes] | None = None

    def evaluate(self, x: Array, gradient: bool, timeout: float) -> Results:
        """Send a chunk and wait for its answer; EOFError or BrokenPipeError if the worker dies over it or hangs."""
        requests, replies = self._pipes()
        assert self.process is not None
        alarm = threading.Timer(timeout, self.process.kill)
        alarm.start()
        try:
            write_frame(requests, b"gradient" if gradient else b"")
            write_frame(requests, x.tobytes())
            requests.flush()
            energy, slope, failures = (read_frame(replies) for _ in range(3))
        finally:
            alarm.cancel()
        shape = x.shape if gradient else (0,)
        return np.frombuffer(energy), np.frombuffer(slope).reshape(shape), json.loads(failures)

    def close(self) -> int | None:
        """End the process, if there is one, and return its exit code."""
        process, self.process = self.process, None
        if process is None:
            return None
        for pipe in (process.stdin, process.stdout):
            with contextlib.suppress(BrokenPipeError):
                cast(IO[bytes], pipe).close()
        try:
            return process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            return process.wait()

    def _pipes(self) -> tuple[IO[bytes], IO[bytes]]:
        if self.process is None:
            # -P: the folder of the script is no place to import from.
            command = [sys.executable, "-P", openmm_worker.__file__]
            threads = {"OPENMM_CPU_THREADS": "1", "OMP_NUM_THREADS": "1"}
            pipe = subprocess.PIPE
            self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, env=os.environ | threads)
            write_frame(cast(IO[bytes], self.process.stdin), self._order)
        return cast(IO[bytes], self.process.stdin), cast(IO[bytes], self.process.stdout)
