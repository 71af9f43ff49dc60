"""Training on a dataset folder: in memory where it is small, in windows where it is not."""

import numpy as np
import torch
from torch import Tensor

from boltzkit.data.dataset import Dataset
from boltzkit.data.labelled import LabelledData
from boltzkit.data.order import BlockOrder
from boltzkit.energy.constants import BOLTZMANN
from boltzkit.errors import UserError
from boltzkit.objective import Batch
from boltzkit.randomness import generator

__all__ = ["StoredBatches", "load_labelled"]

_WINDOW_BYTES = 1 << 26
_BLOCK = 256
"""Neighbours in time are alike: of a window's blocks, a batch holds about as many as it has samples."""


def load_labelled(
    dataset: Dataset,
    temperature: float,
    n: int | None = None,
    *,
    seed: int = 0,
    gradients: bool = False,
    biased: bool = False,
) -> LabelledData:
    """Load samples into memory with the energies they are stored with; costs no energy evaluation.

    Args:
        dataset: the samples, usually one split.
        temperature: of the target in kelvin, by which energies are reduced.
        n: how many, drawn without replacement as a function of the seed; all by default.
        seed: of the draw.
        gradients: load ∂u/∂x too, from stored forces.
        biased: accept samples that do not follow the Boltzmann distribution, or that of another temperature.
    """
    _refuse_unfit(dataset, temperature, gradients, biased)
    if n is not None and n > len(dataset):
        raise UserError(f"{dataset.folder} has {len(dataset):,} samples there, not {n:,}: lower the number.")
    index = np.arange(len(dataset))
    if n is not None:
        chosen = torch.randperm(len(dataset), generator=generator(seed, "stored samples"))[:n]
        index = chosen.sort().values.numpy()
    return _read(dataset, index, temperature, gradients, torch.float64)


class StoredBatches:
    """Shuffled passes over a dataset on disk, every sample once per epoch; a sibling of `EpochBatches`.

    The batch of a step follows from (seed, step) alone. Memory holds one window of about 64 MB per replica, whatever
    the size of the dataset; see `BlockOrder` for how well it mixes. A remainder smaller than a batch is skipped.

    Args:
        dataset: the samples, usually one split; replicas share them, each in its own order.
        batch: samples per step.
        seeds: one per replica, or a single one without replicas.
        temperature: of the target in kelvin, by which energies are reduced.
        batched: whether batches have a replica axis.
        gradients: give ∂u/∂x too, from stored forces.
        biased: accept samples that do not follow the Boltzmann distribution.
        device: where batches go.
        dtype: precision of batches.
        window_bytes: size of a window.
    """

    def __init__(
        self,
        dataset: Dataset,
        batch: int,
        seeds: tuple[int, ...],
        temperature: float,
        *,
        batched: bool = False,
        gradients: bool = False,
        biased: bool = False,
        device: torch.device | str = "cpu",
        dtype: torch.dtype = torch.float32,
        window_bytes: int = _WINDOW_BYTES,
    ) -> None:
        _refuse_unfit(dataset, temperature, gradients, biased)
        if not 0 < batch <= len(dataset):
            raise UserError(f"A batch of {batch} does not fit {len(dataset)} samples: lower training.batch.")
        self.dataset, self.batch, self.temperature = dataset, batch, temperature
        self._gradients, self._device, self._dtype, self._batched = gradients, device, dtype, batched
        per_sample = 12 * dataset.about.n_atoms * (2 if gradients else 1) + 8
        # A whole number of batches, so that none lies across two windows.
        self._per_window = max(1, window_bytes // (per_sample * batch))
        self._order = BlockOrder(len(dataset), self._per_window * batch, _BLOCK)
        self._seeds = seeds if batched else seeds[:1]
        self._window: tuple[int, int] | None = None
        self._content: list[LabelledData] = []

    def __call__(self, step: int) -> Batch:
        """Return the batch of one step."""
        epoch, position = divmod(step, len(self.dataset) // self.batch)
        number, place = divmod(position, self._per_window)
        if (epoch, number) != self._window:
            self._content.clear()  # before the next one is read: only one window is ever in memory
            self._content += [self._load(seed, epoch, number) for seed in self._seeds]
            self._window = epoch, number
        rows = torch.arange(place * self.batch, (place + 1) * self.batch)
        parts = [window.batch(rows) for window in self._content]
        return _to(_stacked(parts) if self._batched else parts[0], self._device)

    def _load(self, seed: int, epoch: int, number: int) -> LabelledData:
        index = self._order.samples(seed, epoch, number)
        return _read(self.dataset, index, self.temperature, self._gradients, self._dtype)


def _read(
    dataset: Dataset,
    index: "np.ndarray[tuple[int], np.dtype[np.int64]]",
    temperature: float,
    gradients: bool,
    dtype: torch.dtype,
) -> LabelledData:
    beta = 1 / (BOLTZMANN * temperature)
    x = torch.from_numpy(dataset.positions(index)).to(dtype)
    # Reduced in double precision: only the result is rounded.
    energy = torch.from_numpy(dataset.energy(index)).mul_(beta).to(dtype)
    gradient = torch.from_numpy(dataset.column("forces", index)).mul_(-beta).to(dtype) if gradients else None
    return LabelledData(x, energy, gradient)


def _stacked(parts: list[Batch]) -> Batch:
    gradients = [part.gradient for part in parts if part.gradient is not None]
    return Batch(
        torch.stack([part.x for part in parts]),
        torch.stack([part.energy for part in parts]),
        torch.stack(gradients) if gradients else None,
    )


def _to(batch: Batch, device: torch.device | str) -> Batch:
    gradient: Tensor | None = None if batch.gradient is None else batch.gradient.to(device)
    return batch.replace(x=batch.x.to(device), energy=batch.energy.to(device), gradient=gradient)


def _refuse_unfit(dataset: Dataset, temperature: float, gradients: bool, biased: bool) -> None:
    about = dataset.about
    if about.temperature != temperature and not biased:
        raise UserError(
            f"{dataset.folder} was sampled at {about.temperature:g} K, but the target is at {temperature:g} K: samples "
            "of another temperature follow another distribution. Learn them by boltzkit train biased, or set "
            f"target.temperature={about.temperature:g}."
        )
    if about.bias is not None and not biased:
        raise UserError(
            f"{dataset.folder} is biased ({about.bias}): it does not follow the Boltzmann distribution and cannot "
            "serve as unbiased data."
        )
    if gradients and "forces" not in about.columns:
        raise UserError(
            f"{dataset.folder} stores no forces, which path gradients need: make it with --forces."
        )
