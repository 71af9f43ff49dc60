"""Importance samples of a proposal, drawn once, kept with the run, and resampled by weight."""

from pathlib import Path

import torch
from torch import Tensor

from boltzkit.data import LabelledData
from boltzkit.energy import Target
from boltzkit.ensemble import Ensemble, Subject, draw_into
from boltzkit.flow import Flow
from boltzkit.method.biased.config import ImportanceConfig
from boltzkit.objective import counted
from boltzkit.randomness import generator
from boltzkit.ranks import by_first_rank, is_first_rank, rank_count, spread_over_ranks
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
    if by_first_rank(lambda: folder is not None and (folder / "summary.json").is_file()):
        assert folder is not None
        return Ensemble.load(folder)
    if rank_count() == 1 and folder is not None:
        return draw_into(folder, flow, target, seed, samples=config.samples, subject=subject)
    drawn = _drawn_together(flow, target, config.samples, seed, subject)
    if folder is not None and is_first_rank():
        drawn.save(folder)
    return drawn


@torch.no_grad()
def _drawn_together(
    flow: Flow, target: Target, n: int, seed: int, subject: Subject | None, chunk: int = 10_000
) -> Ensemble:
    """Return the samples that `draw` would, each rank with its share of every chunk."""

    def labelled(z: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        with flow.evaluating():
            x, log_prob = flow.from_latent(z)
        return x.cpu(), target.label(x), log_prob.cpu()

    parts = []
    with counted(target):
        for index, start in enumerate(range(0, n, chunk)):
            latent = flow.latent(min(chunk, n - start), generator(seed, "ensemble", index))
            parts.append(spread_over_ranks(labelled, latent))
    x, energy, log_prob = (torch.cat(part) for part in zip(*parts, strict=True))
    return Ensemble.from_samples(x, energy, log_prob, n, target.name, None, subject)


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
