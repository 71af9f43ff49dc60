"""Checkpoints: safetensors for tensors, JSON for the rest, in a folder that appears in one step."""

import hashlib
import shutil
from pathlib import Path
from typing import Any

import safetensors.torch
import torch

from boltzkit.errors import UserError
from boltzkit.storage import read_json, write_bytes, write_folder, write_json
from boltzkit.training.state import TrainState

__all__ = ["checkpoints", "load_checkpoint", "read_checkpoint", "save_checkpoint"]

_FORMAT = 1


def save_checkpoint(folder: Path, state: TrainState, keep: int = 2) -> Path:
    """Write ``step-XXXXXXXX/`` with state.safetensors and state.json, then drop all but the newest `keep`."""
    tensors = {k: v.detach().cpu().contiguous() for k, v in state.tensors().items()}
    content = safetensors.torch.save(tensors)
    meta = {
        "format": _FORMAT,
        "step": state.step,
        "evaluations": state.evaluations,
        "sha256": hashlib.sha256(content).hexdigest(),
    }

    def fill(partial: Path) -> None:
        write_bytes(partial / "state.safetensors", content)
        write_json(partial / "state.json", meta)

    path = folder / f"step-{state.step:08d}"
    write_folder(path, fill)
    kept = checkpoints(folder)[-keep:]
    # Everything else, also what a kill left half written or half deleted.
    for old in [*folder.glob("step-*"), *folder.glob(".step-*")]:
        if old not in kept:
            shutil.rmtree(old)
    return path


def checkpoints(folder: Path) -> list[Path]:
    """Return the complete checkpoints of a folder, oldest first."""
    return sorted(path for path in folder.glob("step-*") if (path / "state.json").is_file())


def read_checkpoint(path: Path) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
    """Return the tensors and the metadata of one checkpoint, refusing a damaged one."""
    meta = read_json(path / "state.json")
    if meta.get("format") != _FORMAT:
        raise UserError(f"{path} has checkpoint format {meta.get('format')}; this version reads {_FORMAT}.")
    file = path / "state.safetensors"
    content = file.read_bytes() if file.is_file() else b""
    if hashlib.sha256(content).hexdigest() != meta.get("sha256"):
        raise UserError(f"{path} is damaged (its SHA-256 differs): delete it to go on from the one before.")
    return safetensors.torch.load(content), meta


def load_checkpoint(folder: Path, state: TrainState) -> bool:
    """Continue from the newest checkpoint; return False when there is none."""
    found = checkpoints(folder)
    if not found:
        return False
    tensors, meta = read_checkpoint(found[-1])
    state.load(tensors, meta["step"], meta["evaluations"])
    return True
