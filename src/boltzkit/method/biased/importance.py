"""Importance samples of a proposal, drawn once, kept with the run, and resampled by weight."""

from pathlib import Path

import torch
from torch import Tensor

from boltzkit.data import LabelledData
from boltzkit.energy import Target
from boltzkit.ensemble import Ensemble, Subject, draw
from boltzkit.flow import Flow
from boltzkit.method.biased.config import ImportanceConfig
from boltzkit.randomness import generator
from boltzkit.weights import LogWeights

__all__ = ["held_out_part", "importance_set", "resampled_data"]


def importance_set(
    flow: Flow,
    target: Target,
    config: ImportanceConfig,
    seed: int,
    folder: Path | None,
    subject: Subject | None = None,
) -> Ensemble:
    """Return weighted samples of the proposal: as the folder has them, else drawn and written there.

    Args:
        flow: the proposal.
        target: its energy; costs ``config.samples`` evaluations when they are drawn.
        config: how many.
        seed: of the latent samples.
        folder: of the ensemble; None keeps nothing.
        subject: the molecule.
    """
    if folder is not None and (folder / "summary.json").is_file():
        return Ensemble.load(folder)
    drawn = draw(flow, target, config.samples, seed, subject=subject)
    if folder is not None:
        drawn.save(folder)
    return drawn


def held_out_part(samples: Ensemble, share: float) -> Tensor:
    """Return which samples validate, ``(n,)``: the last of them, which are as independent as any."""
    mask = torch.zeros(samples.weights.n, dtype=torch.bool)
    mask[samples.weights.n - round(share * samples.weights.n) :] = True
    return mask


def resampled_data(samples: Ensemble, kept: Tensor, n: int, seed: int) -> LabelledData:
    """Return n samples drawn by weight, with repeats, from a part of an importance set.

    Args:
        samples: the importance set.
        kept: which samples may be drawn, ``(all,)``.
        n: how many to draw.
        seed: of the draw.
    """
    values = samples.weights.values[kept]
    weights = LogWeights(values, {"no weight": count} if (count := int(values.isneginf().sum())) else {})
    rows = weights.resample(n, generator(seed, "importance resampling"))
    # A failed sample is never drawn; its energy may be anything.
    energy = samples.energy[kept].masked_fill(values.isneginf(), 0.0)
    return LabelledData(samples.x[kept], energy, rows=rows)
