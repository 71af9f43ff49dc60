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
    """Read all frames, some at a time."""
    formats = importlib.import_module("mdtraj.formats")
    kind = formats.XTCTrajectoryFile if path.lower().endswith(".xtc") else formats.TRRTrajectoryFile
    with kind(path) as file:
        for start in range(0, len(file), _FRAMES):
            file.seek(start)
            file.read(n_frames=_FRAMES)


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    try:
        read_to_the_end(sys.argv[1])
    except Exception as error:  # the process that asked tells it to a person
        print(f"{type(error).__name__}: {error}")
        sys.exit(1)
