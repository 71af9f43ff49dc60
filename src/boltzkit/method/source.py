"""Where the batches of a training come from: data, the flow itself, or buffers of its samples."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import torch

from boltzkit.data import (
    Dataset,
    EpochBatches,
    LabelledData,
    StoredBatches,
    assign,
    load_labelled,
    read_samples,
)
from boltzkit.energy import Target
from boltzkit.ensemble import Ensemble
from boltzkit.errors import UserError
from boltzkit.flow import Flow
from boltzkit.method.annealing.lessons import AnnealedBatches
from boltzkit.method.biased import held_out_part, resampled_data
from boltzkit.method.config import RunConfig
from boltzkit.method.fab.replay import ReplayBatches
from boltzkit.method.system import MoleculeConfig, molecule_of
from boltzkit.objective import Batch, ModelBatch, counted
from boltzkit.randomness import generator
from boltzkit.ranks import spread_over_ranks
from boltzkit.weights import LogWeights

__all__ = ["batch_source", "reference_source", "training_data"]


def batch_source(
    configs: tuple[RunConfig, ...],
    flow: Flow,
    target: Target,
    *,
    batched: bool,
    importance: Ensemble | None = None,
) -> Callable[[int], Batch | ModelBatch]:
    """Return step -> batch of one run, or of several that differ in seed and loss weights; whole, on every rank."""
    first, size = configs[0], configs[0].training.batch
    seeds = tuple(config.seed for config in configs)
    if first.importance is not None:
        assert importance is not None, "importance samples are drawn before the training"
        kept = ~held_out_part(importance, 0.0 if first.data.validation_path else first.importance.held_out)
        drawn = resampled_data(importance, kept, first.importance.resampled, first.seed)
        return EpochBatches(drawn.to(first.device, torch.float32), size, seeds)
    if first.annealing is not None:
        return AnnealedBatches(flow, target, first.annealing, size, first.training.steps, first.seed)
    if first.fab is not None:
        return ReplayBatches(flow, target, first.fab, size, first.seed)
    if first.objective.own_samples:
        return _ModelBatches(flow, target, size, seeds)
    if _is_large(first):
        assert isinstance(first.target, MoleculeConfig)
        split = _dataset(first).split("train")
        return StoredBatches(
            split,
            size,
            seeds,
            first.target.temperature,
            gradients=first.objective.energy_gradients,
            biased=first.data.biased,
            device=first.device,
        )
    data = _stack([training_data(config, target) for config in configs], batched)
    return EpochBatches(data.to(first.device, torch.float32), size, seeds)


def reference_source(config: RunConfig) -> Callable[[int], Batch] | None:
    """Return step -> further samples for the dispersion, None where the data term's batch is enough."""
    settings, target = config.reference, config.target
    if settings is None:
        return None
    path = settings.path or config.data.path
    if path is None or not isinstance(target, MoleculeConfig):
        raise UserError("A reference is a dataset of a molecule: set reference.path to its folder.")
    split = Dataset.open(path, molecule_of(target)).split("train")
    size = settings.batch or max(1, config.training.batch // 2)
    # Its own order: the seed of the data term would pair the same rows again and again.
    own = (config.seed + 1,)
    if len(split) > _IN_MEMORY:
        return StoredBatches(split, size, own, target.temperature, biased=True, device=config.device)
    data = load_labelled(split, target.temperature, biased=True)
    return EpochBatches(data.to(config.device, torch.float32), size, own)


def training_data(config: RunConfig, target: Target) -> LabelledData:
    """Return a run's training samples with their labels: drawn from the target, or read from its file."""
    gradients = config.objective.energy_gradients
    if isinstance(config.target, MoleculeConfig):
        split = _dataset(config).split("train")
        temperature, n = config.target.temperature, min(config.data.samples, len(split))
        if config.data.weighted:
            return _drawn_by_weight(config, split, temperature)
        stored = gradients and "forces" in split.about.columns
        data = load_labelled(
            split, temperature, n, seed=config.seed, gradients=stored, biased=config.data.biased
        )
        return _with_gradients(data, target) if gradients and not stored else data
    if config.data.path is None:
        x = target.sample(config.data.samples, generator(config.seed, "training data"))
        source = target.name
    else:
        x = read_samples(Path(config.data.path), target)[: config.data.samples]
        source = config.data.path
    return LabelledData.label(x, target, gradients=gradients, source=source)


def _drawn_by_weight(config: RunConfig, split: Dataset, temperature: float) -> LabelledData:
    """Return biased samples drawn by weight, with repeats; refused where weights are unknown or hopeless."""
    assignment = assign(split, temperature)
    if not assignment.data_term or assignment.weights.log_weight is None:
        raise UserError(
            f"{split.folder} cannot be drawn by weight. {assignment.reason} Use the recipe biased, or give it as "
            "reference.path beside unbiased data."
        )
    data = load_labelled(split, temperature, biased=True)
    weights = LogWeights(assignment.weights.log_weight, {})
    rows = weights.resample(config.data.samples, generator(config.seed, "samples by weight"))
    return replace(data, rows=rows)


def _with_gradients(data: LabelledData, target: Target) -> LabelledData:
    """Return data with ∂u/∂x, computed where no forces are stored; costs one energy evaluation per sample."""
    with counted(target):
        parts = [
            spread_over_ranks(lambda part: (target.energy_and_gradient(part)[1].to(data.x),), x)[0]
            for x in torch.split(data.x, _CHUNK)
        ]
    return replace(data, gradient=torch.cat(parts))


_CHUNK = 10_000
_IN_MEMORY = 1_000_000
"""Samples up to which a dataset is held in memory."""


def _is_large(config: RunConfig) -> bool:
    """Whether training reads its dataset in windows: where all of it is asked for, and it is large.

    A part is drawn once and held in memory, whatever its size: windows know no parts.
    """
    if not isinstance(config.target, MoleculeConfig) or config.data.weighted:
        return False
    if config.data.samples <= _IN_MEMORY:
        return False
    return _IN_MEMORY < len(_dataset(config).split("train")) <= config.data.samples


def _dataset(config: RunConfig) -> Dataset:
    assert isinstance(config.target, MoleculeConfig)
    if config.data.path is None:
        raise UserError(
            f"{config.target.name} cannot be sampled exactly: make data with boltzkit simulate, and set data.path "
            "to its folder."
        )
    return Dataset.open(config.data.path, molecule_of(config.target))


def _stack(parts: list[LabelledData], batched: bool) -> LabelledData:
    if not batched:
        return parts[0]
    gradients = [part.gradient for part in parts if part.gradient is not None]
    return LabelledData(
        torch.stack([part.x for part in parts]),
        torch.stack([part.energy for part in parts]),
        torch.stack(gradients) if gradients else None,
    )


class _ModelBatches:
    """Fresh samples of the flow itself at every step, for the reverse KL."""

    def __init__(self, flow: Flow, target: Target, n: int, seeds: tuple[int, ...]) -> None:
        self.flow, self.target, self.n, self.seeds = flow, target, n, seeds

    def __call__(self, step: int) -> ModelBatch:
        own = [generator(seed, "model batch", step) for seed in self.seeds]
        return ModelBatch(self.flow.latent(self.n, own if self.flow.replicas else own[0]), self.target)
