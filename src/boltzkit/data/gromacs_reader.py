"""Reads a Gromacs trajectory to its end and says nothing: run as a process of its own, which may die over it.

The C code that reads XTC and TRR files trusts what it finds there. What would take down a day's labelling takes down
this process instead.
"""

import importlib
import resource
import sys

__all__ = ["read_to_the_end"]

_MEMORY = 4 << 30
"""Bytes that reading a frame at a time may take at most."""
_FRAMES = 100


def read_to_the_end(path: str) -> None:
    """Read all frames, some at a time.

    Raises:
        EOFError: the file is cut off; its argument is the number of complete frames.
    """
    formats = importlib.import_module("mdtraj.formats")
    kind = formats.XTCTrajectoryFile if path.lower().endswith(".xtc") else formats.TRRTrajectoryFile
    with kind(path) as file:
        last = len(file) - 1
        for start in range(0, last, _FRAMES):
            file.seek(start)
            file.read(n_frames=min(_FRAMES, last - start))
        # mdtraj may count an incomplete last frame or not, and stumbles over it in either case.
        for wanted in (1, 2):
            file.seek(last)
            try:
                file.read(n_frames=wanted)
            except RuntimeError as error:
                complete = last + wanted - 1
                if complete == 0:
                    raise
                raise EOFError(complete) from error


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    try:
        read_to_the_end(sys.argv[1])
    except Exception as error:  # the process that asked tells it to a person
        print(f"{type(error).__name__}: {error}")
        sys.exit(1)
