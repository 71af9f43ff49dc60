"""Checkpoints: safetensors for tensors, JSON for the rest, in a folder that appears in one step.

Every checkpoint has a checksum over all of it. Older formats are read through `_upgraded`, one step per version.
"""

import hashlib
import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import safetensors.torch
import torch

from boltzkit.errors import UserError
from boltzkit.storage import read_json, write_bytes, write_folder, write_json
from boltzkit.training.state import TrainState

__all__ = [
    "checkpoints",
    "drop_old",
    "load_checkpoint",
    "read_checkpoint",
    "save_checkpoint",
    "save_model",
    "set_damaged_aside",
]

_FORMAT = 2
"""Since 2, the checksum covers the numbers of state.json too; 1 is still read, see `_upgraded`."""
_MODEL = "model"
"""The kind of a checkpoint that holds the flow alone."""


def save_checkpoint(folder: Path, state: TrainState, keep: int = 2) -> Path:
    """Write ``step-XXXXXXXX/`` with state.safetensors and state.json, then drop all but the newest `keep`."""
    path = _write(folder, state.tensors(), {"step": state.step, "evaluations": state.evaluations})
    drop_old(folder, keep)
    return path


def drop_old(folder: Path, keep: int = 2) -> None:
    """Remove all checkpoints but the newest `keep`, and what a kill left half written or half deleted."""
    for rest in folder.glob(".step-*"):
        shutil.rmtree(rest)
    kept = checkpoints(folder)[-keep:]
    for old in folder.glob("step-*"):
        if old not in kept:
            # Under a name that nobody takes for a checkpoint, in case the removal is cut short.
            shutil.rmtree(old.rename(old.with_name(f".{old.name}.dropped")))


def save_model(
    folder: Path, flow: Mapping[str, torch.Tensor], step: int, evaluations: int, *, averaged: bool = False
) -> Path:
    """Write a checkpoint of the flow alone: a third of the size, enough to load and judge, too little to train on.

    Args:
        folder: the ``checkpoints/`` of a run folder.
        flow: the flow's tensors.
        step: steps behind them.
        evaluations: energy evaluations behind them.
        averaged: whether these are averaged weights, which a run with `training.ema` is loaded with.
    """
    prefix = "ema." if averaged else "modules.flow."
    tensors = {f"{prefix}{name}": value for name, value in flow.items()}
    return _write(folder, tensors, {"kind": _MODEL, "step": step, "evaluations": evaluations})


def _write(folder: Path, tensors: Mapping[str, torch.Tensor], meta: dict[str, Any]) -> Path:
    content = safetensors.torch.save({k: v.detach().cpu().contiguous() for k, v in tensors.items()})
    described = {"format": _FORMAT, **meta}
    described["sha256"] = _checksum(content, described)

    def fill(partial: Path) -> None:
        write_bytes(partial / "state.safetensors", content)
        write_json(partial / "state.json", described)

    path = folder / f"step-{meta['step']:08d}"
    write_folder(path, fill)
    return path


def _checksum(content: bytes, described: Mapping[str, Any]) -> str:
    """Return the SHA-256 of the tensors' file followed by what is said about it."""
    said = {key: value for key, value in described.items() if key != "sha256"}
    return hashlib.sha256(content + json.dumps(said, sort_keys=True).encode()).hexdigest()


def checkpoints(folder: Path) -> list[Path]:
    """Return the complete checkpoints of a folder, oldest first."""
    return sorted(path for path in folder.glob("step-*") if (path / "state.json").is_file())


def read_checkpoint(path: Path) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
    """Return the tensors and the metadata of one checkpoint, refusing a damaged one."""
    meta = read_json(path / "state.json")
    if not isinstance(meta, dict):
        raise UserError(
            f"{path}/state.json does not describe a checkpoint: delete {path} to go on from the one before."
        )
    file = path / "state.safetensors"
    content = file.read_bytes() if file.is_file() else b""
    meta = _upgraded(meta, content, path)
    if _checksum(content, meta) != meta.get("sha256"):
        raise UserError(f"{path} is damaged (its SHA-256 differs): delete it to go on from the one before.")
    if not all(type(meta.get(key)) is int and meta[key] >= 0 for key in ("step", "evaluations")):
        raise UserError(
            f"{path}/state.json does not say how many steps and evaluations are behind it: restore it."
        )
    try:
        return safetensors.torch.load(content), meta
    except Exception as error:  # the library raises whatever it stumbles over
        raise UserError(f"{path}/state.safetensors holds no tensors ({error}): delete {path}.") from error


def _upgraded(meta: dict[str, Any], content: bytes, path: Path) -> dict[str, Any]:
    """Return what today's version would have written in the place of an older one."""
    version = meta.get("format")
    if version == 1 and meta.get("sha256") == hashlib.sha256(content).hexdigest():  # of the tensors alone
        meta = meta | {"format": 2}
        meta["sha256"], version = _checksum(content, meta), 2
    if version not in (1, _FORMAT):
        raise UserError(
            f"{path} has checkpoint format {version}; this version reads 1 to {_FORMAT}: "
            "it was written by a newer boltzkit, or is damaged."
        )
    return meta


def set_damaged_aside(folder: Path) -> list[str]:
    """Rename checkpoints that are newer than the newest sound one and cannot be read; return a sentence on each.

    Where none is sound nothing is touched: reading the newest tells what is wrong with it.
    """
    damaged: list[Path] = []
    for path in reversed(checkpoints(folder)):
        try:
            read_checkpoint(path)
        except UserError:
            damaged.append(path)
            continue
        for bad in damaged:
            aside = bad.with_name(f"damaged-{bad.name}")
            shutil.rmtree(aside, ignore_errors=True)
            bad.rename(aside)
        return [
            f"{bad} cannot be read and was set aside, the run goes on from {path.name}" for bad in damaged
        ]
    return []


def load_checkpoint(folder: Path, state: TrainState) -> bool:
    """Continue from the newest checkpoint; return False when there is none."""
    found = checkpoints(folder)
    if not found:
        return False
    tensors, meta = read_checkpoint(found[-1])
    if meta.get("kind") == _MODEL:
        raise UserError(
            f"{found[-1]} holds a model without its optimiser: load, sample or evaluate it; training cannot go on."
        )
    misfit = _misfit(tensors, state)
    if misfit is not None:
        raise UserError(
            f"{found[-1]} does not fit the settings of its run ({misfit}): delete it to go on from the one before."
        )
    state.load(tensors, meta["step"], meta["evaluations"])
    return True


def _misfit(tensors: Mapping[str, torch.Tensor], state: TrainState) -> str | None:
    """Return what keeps a state from going on with some tensors, None if nothing does.

    Moments of the optimiser appear with the first step, and a memory has any size: they are not looked at. Checkpoints
    of earlier versions have no norms.
    """
    looked_at = ("modules.", "ema.", "counts.")
    expected = {k: v.shape for k, v in state.tensors().items() if k.startswith(looked_at)}
    found = {k: v.shape for k, v in tensors.items() if k.startswith(looked_at)}
    for name in sorted(found.keys() - expected.keys()):
        return f"the tensor {name[:100]} has no place"
    for name, shape in expected.items():
        if found.get(name, shape) != shape:
            return f"the tensor {name} has the shape {tuple(found[name])}, not {tuple(shape)}"
        if name not in found and name != "counts.norms":
            return f"the tensor {name} is missing"
    return None
