"""Chunks of an ensemble on disk while it is drawn: a long drawing that was killed goes on with the next chunk."""

import hashlib
import os
import shutil
from contextlib import ExitStack
from pathlib import Path
from typing import Self

import safetensors
import safetensors.torch
import torch
from torch import Tensor

from boltzkit.data.lock import sole_writer
from boltzkit.errors import Interrupted
from boltzkit.flow.flow import Flow
from boltzkit.interrupt import stop_requested
from boltzkit.storage import write_bytes

__all__ = ["Chunk", "Spool", "forget_chunks"]

Chunk = tuple[Tensor, Tensor, Tensor]
"""x, energy, log_prob."""
_NAMES = ("x", "energy", "log_prob")


class Spool:
    """A folder of finished chunks beside the ensemble that they become.

    A chunk's file carries its checksum in its name, and one that does not fit is drawn again. Chunks of another flow,
    target or seed lie in another folder of the spool and are cleared away. In a ``with`` block, a request to stop is
    answered after the next chunk.

    Args:
        out: folder of the ensemble; the spool is ``.NAME.chunks`` beside it.
        flow: whose samples these are.
        drawn_for: what else a chunk depends on: the target, its temperature, the seed.
    """

    def __init__(self, out: Path, flow: Flow, *drawn_for: object) -> None:
        self._root = _root(out)
        self._folder = self._root / _digest(flow, drawn_for)
        self._open = ExitStack()

    def __enter__(self) -> Self:
        self._open.enter_context(sole_writer(self._root, patience=0))
        for other in self._root.iterdir():
            if other.is_dir() and other != self._folder:
                shutil.rmtree(other)
        self._stopping = self._open.enter_context(stop_requested())
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def get(self, index: int, size: int) -> Chunk | None:
        """Return a finished chunk, None where there is none or another one."""
        for path in self._folder.glob(f"{index:06d}-{size}-*.safetensors"):
            content = path.read_bytes()
            if path.stem.rpartition("-")[2] == hashlib.sha256(content).hexdigest():
                tensors = safetensors.torch.load(content)
                return tensors["x"], tensors["energy"], tensors["log_prob"]
            path.unlink()
        return None

    def put(self, index: int, chunk: Chunk) -> None:
        """Keep a chunk.

        Raises:
            Interrupted: a stop was asked for; what is drawn so far is kept.
        """
        parts = dict(zip(_NAMES, (part.contiguous() for part in chunk), strict=True))
        content = safetensors.torch.save(parts)
        name = f"{index:06d}-{len(chunk[0])}-{hashlib.sha256(content).hexdigest()}.safetensors"
        write_bytes(self._folder / name, content)
        if self._stopping():
            raise Interrupted(
                f"Stopped after {index + 1} chunks of samples; the same command goes on from there."
            )

    def clear(self) -> None:
        """Remove the chunks: the ensemble is complete."""
        shutil.rmtree(self._root, ignore_errors=True)


def forget_chunks(out: Path) -> None:
    """Remove chunks that a kill left beside an ensemble that is complete."""
    shutil.rmtree(_root(out), ignore_errors=True)


def _root(out: Path) -> Path:
    out = Path(os.path.abspath(out))  # "." has no name
    return out.with_name(f".{out.name}.chunks")


def _digest(flow: Flow, drawn_for: tuple[object, ...]) -> str:
    whole = hashlib.sha256(repr(drawn_for).encode())
    for name, value in sorted(flow.state_dict().items()):
        whole.update(name.encode())
        whole.update(value.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes())
    return whole.hexdigest()[:16]
