"""Checkpoints: safetensors for tensors, JSON for the rest, in a folder that appears in one step."""

import hashlib
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import safetensors.torch
import torch

from boltzkit.errors import UserError
from boltzkit.storage import read_json, write_bytes, write_folder, write_json
from boltzkit.training.state import TrainState

__all__ = ["checkpoints", "load_checkpoint", "read_checkpoint", "save_checkpoint", "save_model"]

_FORMAT = 1
_MODEL = "model"
"""The kind of a checkpoint that holds the flow alone."""


def save_checkpoint(folder: Path, state: TrainState, keep: int = 2) -> Path:
    """Write ``step-XXXXXXXX/`` with state.safetensors and state.json, then drop all but the newest `keep`."""
    path = _write(folder, state.tensors(), {"step": state.step, "evaluations": state.evaluations})
    kept = checkpoints(folder)[-keep:]
    # Everything else, also what a kill left half written or half deleted.
    for old in [*folder.glob("step-*"), *folder.glob(".step-*")]:
        if old not in kept:
            shutil.rmtree(old)
    return path


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
    described = {"format": _FORMAT, **meta, "sha256": hashlib.sha256(content).hexdigest()}

    def fill(partial: Path) -> None:
        write_bytes(partial / "state.safetensors", content)
        write_json(partial / "state.json", described)

    path = folder / f"step-{meta['step']:08d}"
    write_folder(path, fill)
    return path


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
    if meta.get("format") != _FORMAT:
        raise UserError(f"{path} has checkpoint format {meta.get('format')}; this version reads {_FORMAT}.")
    file = path / "state.safetensors"
    content = file.read_bytes() if file.is_file() else b""
    if hashlib.sha256(content).hexdigest() != meta.get("sha256"):
        raise UserError(f"{path} is damaged (its SHA-256 differs): delete it to go on from the one before.")
    if not all(type(meta.get(key)) is int and meta[key] >= 0 for key in ("step", "evaluations")):
        raise UserError(
            f"{path}/state.json does not say how many steps and evaluations are behind it: restore it."
        )
    try:
        return safetensors.torch.load(content), meta
    except Exception as error:  # the library raises whatever it stumbles over
        raise UserError(f"{path}/state.safetensors holds no tensors ({error}): delete {path}.") from error


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
