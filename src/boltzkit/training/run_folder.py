"""The run folder: config.json, provenance.json, metrics.jsonl, checkpoints/.

A folder whose one checkpoint holds the flow alone (`save_model`) is a run folder too: whatever loads, samples or
evaluates a run takes it; only training refuses to go on from it.
"""

import json
import platform
import subprocess
from importlib import metadata
from pathlib import Path
from typing import Any, Self

import torch

from boltzkit.config import Config
from boltzkit.data.lock import FolderLock
from boltzkit.errors import UserError
from boltzkit.flow import short_products_are_fast
from boltzkit.ranks import rank_count
from boltzkit.storage import disk_errors_explained, finite, read_json, write_bytes, write_json
from boltzkit.training.checkpoint import drop_old, set_damaged_aside

__all__ = ["RunFolder", "provenance", "read_origin"]

_BIT_IDENTICAL = ("torch", "threads", "device", "machine", "ranks")
"""What must be equal for a resumed run to be bit-identical to an uninterrupted one."""

_FIRST_FILES = {".lock", "provenance.json", ".provenance.json.partial", ".config.json.partial"}
"""What a run that was killed before its configuration was complete leaves behind."""


class RunFolder:
    """One run on disk. The same configuration opens it again and goes on; another one is refused.

    An open folder is locked: no other process may write to it until this one closes it, or ends however it ends.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._last_logged = -1
        self._lock: FolderLock | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let others write."""
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def open(self, config: Config, seed: int, device: str, molecule: str | None = None) -> list[str]:
        """Create the folder or join it; return what may make a resumed run differ in its last bits.

        Args:
            config: of the run; another one than the folder's is refused.
            seed: of the run.
            device: where it computes.
            molecule: hash of what it learns, if that is a molecule; another one than the folder's is refused.
        """
        now = provenance(seed, device, molecule)
        there = {path.name for path in self.path.iterdir()} if self.path.is_dir() else set()
        begun = there - _FIRST_FILES
        if "config.json" not in begun and begun:
            raise UserError(f"{self.path} is not empty and not a run: choose another folder with --out.")
        # Without a line of metrics or a checkpoint there is nothing to lose: other settings may take the folder.
        if begun <= {"config.json"}:
            self._take()
            # The configuration last: a folder that has one is a complete run, whenever a kill came.
            write_json(self.path / "provenance.json", now)
            write_json(self.path / "config.json", json.loads(config.model_dump_json()))
            return []
        self._take()
        if not config.is_stored_as(read_json(self.path / "config.json")):
            raise UserError(
                f"{self.path} holds a run with other settings: choose another folder with --out, "
                "or repeat the settings it was started with."
            )
        self._last_logged = self._mend_metrics()
        then = {"ranks": 1} | read_origin(self.path, molecule)  # which earlier versions did not write
        remarks = set_damaged_aside(self.checkpoints)
        drop_old(self.checkpoints)
        return remarks + [
            f"{key} was {then.get(key)} and is now {now[key]}: the run goes on, but not bit for bit"
            for key in _BIT_IDENTICAL
            if then.get(key) != now[key]
        ]

    def _take(self) -> None:
        if self._lock is None:
            with disk_errors_explained(self.path):
                self.path.mkdir(parents=True, exist_ok=True)
            self._lock = FolderLock(self.path)

    @property
    def checkpoints(self) -> Path:
        """Where checkpoints live."""
        return self.path / "checkpoints"

    def log(self, line: dict[str, Any]) -> None:
        """Append one line to metrics.jsonl.

        A resumed run repeats the steps since its checkpoint bit for bit, so lines that are there stay.
        """
        if line["step"] <= self._last_logged:
            return
        path = self.path / "metrics.jsonl"
        with disk_errors_explained(path), open(path, "a") as file:
            file.write(json.dumps(finite(line), allow_nan=False) + "\n")
        self._last_logged = line["step"]

    def metrics(self) -> list[dict[str, Any]]:
        """Return all complete lines of metrics.jsonl."""
        path = self.path / "metrics.jsonl"
        lines = path.read_bytes().split(b"\n")[:-1] if path.is_file() else []
        return [_metrics_line(line, number, path) for number, line in enumerate(lines, 1)]

    def _mend_metrics(self) -> int:
        """Cut a line that a kill left unfinished; return the last logged step."""
        path = self.path / "metrics.jsonl"
        if not path.is_file():
            return -1
        content = path.read_bytes()
        complete = content[: content.rfind(b"\n") + 1]
        if complete != content:
            write_bytes(path, complete)
        lines = complete.split(b"\n")[:-1]
        return int(_metrics_line(lines[-1], len(lines), path)["step"]) if lines else -1


def _metrics_line(line: bytes, number: int, path: Path) -> dict[str, Any]:
    try:
        content = json.loads(line)
    except (ValueError, RecursionError):
        content = None
    if not isinstance(content, dict) or type(content.get("step")) is not int:
        raise UserError(f"{path}: line {number} is damaged: remove it, what is plotted then lacks that step.")
    return content


def read_origin(folder: Path, molecule: str | None) -> dict[str, Any]:
    """Return where a run comes from; refuse one of which files or force field have changed since.

    Args:
        folder: of the run.
        molecule: hash of what its settings name now; earlier versions did not store it.
    """
    origin = read_json(folder / "provenance.json")
    if not isinstance(origin, dict):
        raise UserError(f"{folder}/provenance.json does not say where the run comes from: restore it.")
    if origin.get("molecule") not in (None, molecule):
        raise UserError(
            f"{folder} was trained for another molecule than its settings name now: a structure or a force field has "
            "changed since. Restore the files, or train anew with another --out."
        )
    return origin


def provenance(seed: int, device: str, molecule: str | None = None) -> dict[str, Any]:
    """Return what a result depends on besides its configuration; of a molecule also its hash."""
    return {
        "boltzkit": metadata.version("boltzkit"),
        **({} if molecule is None else {"molecule": molecule}),
        "torch": torch.__version__,
        "openmm": metadata.version("openmm"),
        "numpy": metadata.version("numpy"),
        "python": platform.python_version(),
        "machine": _machine(),
        "threads": torch.get_num_threads(),
        "device": device,
        "ranks": rank_count(),
        "seed": seed,
        "commit": _commit(),
    }


def _machine() -> str:
    short = ", bfloat16" if short_products_are_fast() else ""
    return f"{platform.machine()}, {torch.backends.cpu.get_cpu_capability()}{short}"


def _commit(package: Path = Path(__file__).parents[1]) -> str | None:
    """Return the commit of the source tree that a package runs from, None for an installed package.

    Only the package's own files make it dirty: experiments write results into the same tree while they run. An
    environment inside of somebody's repository is not that repository's source.
    """
    if not _git(package, "ls-files", "."):
        return None
    commit, changes = _git(package, "rev-parse", "HEAD"), _git(package, "status", "--porcelain", ".")
    return f"{commit}-dirty" if commit and changes else commit


def _git(folder: Path, *words: str) -> str | None:
    """Return what git answers in a folder; None where there is nothing, no repository or no git."""
    try:
        answer = subprocess.run(
            ["git", *words], cwd=folder, capture_output=True, text=True, check=False, timeout=10
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return answer.stdout.strip() or None
