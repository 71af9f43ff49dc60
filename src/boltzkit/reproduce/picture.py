"""Small arrays that a finished cell leaves for figures: a plane's density, or a peptide's Ramachandran histograms."""

import io
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from boltzkit.ensemble import TORUS, Observed
from boltzkit.method import Evidence, Model
from boltzkit.storage import write_bytes

__all__ = ["store_picture"]

_Arrays = dict[str, NDArray[np.float32] | NDArray[np.float64]]


def store_picture(path: Path, model: Model, evidence: Evidence) -> None:
    """Write the arrays of one model as .npz; nothing for targets that no figure knows.

    - in the plane: ``axis``, ``log_prob`` and ``log_target`` on the grid
    - of a peptide with test data: ``data``, ``model`` and ``reweighted``, shares of (φ, ψ) cells,
      ``(pairs, bins, bins)``
    """
    arrays: _Arrays = {}
    if model.target.event_shape == (2,):
        arrays = _density(model)
    elif evidence.backbone is not None and evidence.data is not None:
        clip = model.config.evaluation.clip
        weights = evidence.model.weights.clipped(clip).normalised()
        arrays = {
            "data": _ramachandran(evidence.data),
            "model": _ramachandran(evidence.model),
            "reweighted": _ramachandran(evidence.model, weights),
        }
    if arrays:
        buffer = io.BytesIO()
        np.savez_compressed(buffer, allow_pickle=False, **arrays)
        write_bytes(path, buffer.getvalue())


def _density(model: Model, half_width: float = 3.0, points: int = 121) -> _Arrays:
    axis = torch.linspace(-half_width, half_width, points, dtype=torch.float64)
    grid = torch.cartesian_prod(axis, axis)
    return {
        "axis": axis.numpy(),
        "log_prob": model.log_prob(grid).reshape(points, points).numpy().astype(np.float32),
        "log_target": -model.target(grid).reshape(points, points).numpy().astype(np.float32),
    }


def _ramachandran(observed: Observed, weights: torch.Tensor | None = None) -> NDArray[np.float32]:
    """Return the share of samples in each cell; samples without finite angles are in none."""
    angles = observed.observables["angles"]
    pairs = []
    for pair in range(angles.shape[1]):
        cell = TORUS.cell(angles[:, pair])
        mass = torch.bincount(cell, weights=weights, minlength=TORUS.cells + 1)[: TORUS.cells].double()
        pairs.append((mass / mass.sum()).reshape(TORUS.bins, TORUS.bins))
    return torch.stack(pairs).numpy().astype(np.float32)
