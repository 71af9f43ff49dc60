"""OpenMM energies one configuration at a time, in this process or as a worker process of its own.

Run as a script, this file serves its standard input. Nothing of boltzkit is imported then, so that a worker starts
in a fraction of a second, and no object is ever unpickled. It ends when its input does, so that no worker outlives
the process that started it, however that one ended.
"""

import json
import os
import signal
import struct
import sys
from typing import IO, Any

import numpy as np
import openmm
from numpy.typing import NDArray

__all__ = ["Array", "Engine", "Results", "read_frame", "write_frame"]

Array = NDArray[np.float64]
Results = tuple[Array, Array, list[str]]
"""Energies ``(n,)`` in kJ/mol, gradients ``(n, atoms, 3)`` in kJ/mol/nm if asked for, and what went wrong."""

_LENGTH = struct.Struct("<Q")


class Engine:
    """One OpenMM Context on one thread.

    Args:
        system: the OpenMM System; the Context copies what it needs.
        platform: OpenMM's name of the platform.
    """

    def __init__(self, system: openmm.System, platform: str) -> None:
        chosen = openmm.Platform.getPlatformByName(platform)
        properties = {"Threads": "1"} if "Threads" in chosen.getPropertyNames() else {}
        self._context = openmm.Context(system, openmm.VerletIntegrator(0.001), chosen, properties)

    def evaluate(self, x: Array, gradient: bool) -> Results:
        """Evaluate configurations of shape ``(n, atoms, 3)`` in nm.

        Every result starts as NaN and stays so where OpenMM raises an exception.
        """
        energy = np.full(len(x), np.nan)
        slope = np.full(x.shape if gradient else (0,), np.nan)
        failures = []
        for row, positions in enumerate(x):
            try:
                self._context.setPositions(positions)
                state: Any = self._context.getState(getEnergy=True, getForces=gradient)
            except openmm.OpenMMException as error:
                failures.append(str(error))
                continue
            energy[row] = state.getPotentialEnergy()._value
            if gradient:
                slope[row] = -state.getForces(asNumpy=True)._value
        return energy, slope, failures


def write_frame(stream: IO[bytes], content: bytes) -> None:
    """Write bytes, preceded by their number."""
    stream.write(_LENGTH.pack(len(content)))
    stream.write(content)


def read_frame(stream: IO[bytes]) -> bytes:
    """Read what `write_frame` wrote; EOFError if the other side has gone.

    >>> import io
    >>> stream = io.BytesIO()
    >>> write_frame(stream, b"energies")
    >>> _ = stream.seek(0)
    >>> read_frame(stream)
    b'energies'
    """
    (length,) = _LENGTH.unpack(_exactly(stream, _LENGTH.size))
    return _exactly(stream, length)


def _exactly(stream: IO[bytes], length: int) -> bytes:
    content = stream.read(length)
    if len(content) < length:
        raise EOFError
    return content


def _serve(requests: IO[bytes], replies: IO[bytes]) -> None:
    """Take an order (System and platform), then answer (gradient?, positions) by `Results` until the input ends."""
    order = json.loads(read_frame(requests))
    system = openmm.XmlSerializer.deserialize(order["system"])
    engine = Engine(system, order["platform"])
    while True:
        gradient = read_frame(requests) == b"gradient"
        x = np.frombuffer(read_frame(requests)).reshape(-1, system.getNumParticles(), 3)
        energy, slope, failures = engine.evaluate(x, gradient)
        for content in (energy.tobytes(), slope.tobytes(), json.dumps(failures).encode()):
            write_frame(replies, content)
        replies.flush()


def _main() -> None:
    # Ctrl-C in a terminal reaches the whole group: the parent decides what becomes of its workers.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever a library prints must not get between the frames
    try:
        _serve(sys.stdin.buffer, replies)
    except (EOFError, BrokenPipeError):
        # The parent has closed the pool or has gone. At once: a flush of what nobody reads would only complain.
        os._exit(0)


if __name__ == "__main__":
    _main()
