"""C++ sources of the package, compiled once per machine and kept on disk.

A source is compiled for the processor at hand when it is first needed (seconds), into the user's cache folder
(``$BOLTZKIT_CACHE``, else ``$XDG_CACHE_HOME/boltzkit``, else ``~/.cache/boltzkit``). The file's name is a hash of the
source, the flags, the compiler and the processor's instruction set: another machine that shares the folder compiles its
own. Without a compiler there is no library, and callers fall back to torch.
"""

import ctypes
import hashlib
import os
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

__all__ = ["cache_folder", "compiler", "load_library", "sources"]

_FLAGS = (
    "-std=c++17",
    "-O3",
    "-march=native",
    "-ffp-contract=fast",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-fno-signed-zeros",
    "-shared",
    "-fPIC",
    "-pthread",
    "-w",
)
_HEADERS = Path(__file__).parent
_COMPILERS = ("g++", "c++", "clang++")


def compiler() -> str | None:
    """Return the path of the C++ compiler: ``$CXX``, else the first of g++, c++ and clang++ that is there."""
    return next(filter(None, map(shutil.which, (os.environ.get("CXX", ""), *_COMPILERS))), None)


def sources() -> list[Path]:
    """Return all C++ sources of the package."""
    return sorted(_HEADERS.parent.rglob("*.cpp"))


def cache_folder() -> Path:
    """Return the folder of compiled libraries; it need not exist yet."""
    if own := os.environ.get("BOLTZKIT_CACHE"):
        return Path(own)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "boltzkit"


@cache
def load_library(source: Path) -> ctypes.CDLL | None:
    """Return the compiled library of a C++ source; None where it cannot be compiled."""
    program = compiler()
    if program is None:
        return None
    try:
        return ctypes.CDLL(str(_compiled(source, program)))
    except (OSError, subprocess.SubprocessError):
        return None


def _compiled(source: Path, program: str) -> Path:
    name = f"{source.stem}-{_fingerprint(source, program)}.so"
    try:
        folder = cache_folder()
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if (folder / name).exists():
            return folder / name
        return _compile(source, program, folder / name)
    except PermissionError:
        # A home that cannot be written to: every process compiles for itself.
        return _compile(source, program, Path(tempfile.mkdtemp(prefix="boltzkit-")) / name)


def _fingerprint(source: Path, program: str) -> str:
    # The macros that the compiler predefines name its version and every instruction set of this processor.
    macros = subprocess.run(
        [program, "-march=native", "-dM", "-E", "-x", "c++", os.devnull], check=True, capture_output=True
    ).stdout
    headers = [path.read_bytes() for path in sorted(_HEADERS.glob("*.h"))]
    content = b"\0".join([source.read_bytes(), *headers, " ".join(_FLAGS).encode(), macros])
    return hashlib.sha256(content).hexdigest()[:20]


def _compile(source: Path, program: str, library: Path) -> Path:
    # Written beside and renamed: two processes that start together cannot load each other's half-written file.
    handle, temporary = tempfile.mkstemp(dir=library.parent, suffix=".so")
    os.close(handle)
    try:
        command = [program, *_FLAGS, f"-I{_HEADERS}", str(source), "-o", temporary]
        # Not every compiler comes with OpenMP; without it, the sources start threads of their own.
        if subprocess.run([*command, "-fopenmp"], capture_output=True).returncode:
            subprocess.run(command, check=True, capture_output=True)
        os.replace(temporary, library)
    finally:
        Path(temporary).unlink(missing_ok=True)
    return library
