"""boltzkit doctor: what this machine can do, and is it right."""

import os
import platform
from importlib import metadata

from boltzkit.cli.figures import aligned
from boltzkit.native import compiler, load_library, sources

__all__ = ["doctor"]

_PACKAGES = (
    "boltzkit",
    "torch",
    "openmm",
    "numpy",
    "scipy",
    "pydantic",
    "safetensors",
    "matplotlib",
    "cyclopts",
)


def doctor() -> int:
    """Show versions and devices, and check that flows, weights, checkpoints and force fields work here.

    The checks take seconds. Put the output into a bug report.

    **Examples**

    ```
    boltzkit doctor
    ```

    No files are written. The exit code is 0 if all is well and 2 if a check fails.
    """
    print(aligned([*_versions(), *_devices()]))
    print()
    from boltzkit.cli.checks import run_checks

    failed = 0
    for finding in run_checks():
        print(f"{'✓' if finding.good else '✗'} {finding.sentence}", flush=True)
        failed += not finding.good
    print()
    print(f"Do not trust results of this machine: {failed} checks failed." if failed else "All is well.")
    return 2 if failed else 0


def _versions() -> list[tuple[str, str]]:
    python = ("python", f"{platform.python_version()} on {platform.platform()}")
    return [python, *((name, _version(name)) for name in _PACKAGES)]


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"


def _devices() -> list[tuple[str, str]]:
    import torch

    cuda = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
    threads = f"{torch.get_num_threads()} threads on {os.cpu_count()} processors"
    return [
        ("cpu", f"{threads}, {torch.backends.cpu.get_cpu_capability()}"),
        ("cuda", ", ".join(cuda) if torch.cuda.is_available() else "none"),
        ("mps", "yes" if torch.backends.mps.is_available() else "none"),
        ("C++ compiler", compiler() or "none"),
        ("C++ kernels", _kernels()),
    ]


def _kernels() -> str:
    """Say which sources compile here; results are the same without, and slower."""
    slow = "in their place runs plain torch, several times more slowly"
    if compiler() is None:
        return f"none without a compiler: {slow}"
    failed = [source.name for source in sources() if load_library(source) is None]
    if failed:
        return f"{', '.join(failed)} cannot be compiled: {slow}; set CXX to another compiler"
    return f"{len(sources())} compiled"
