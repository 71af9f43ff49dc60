"""Which samples a training step sees, as a function of the step."""

import torch
from torch import Tensor

from boltzkit.data.labelled import LabelledData
from boltzkit.errors import UserError
from boltzkit.objective import Batch
from boltzkit.randomness import generator

__all__ = ["EpochBatches"]


class EpochBatches:
    """Shuffled passes over a dataset, every sample once per epoch (a remainder smaller than a batch is skipped).

    The batch of a step follows from (seed, step) alone, so a resumed run sees what an uninterrupted one sees.

    Args:
        data: the samples.
        batch: samples per step.
        seeds: one per replica, or a single one without replicas.
    """

    def __init__(self, data: LabelledData, batch: int, seeds: tuple[int, ...]) -> None:
        if not 0 < batch <= data.size:
            raise UserError(f"A batch of {batch} does not fit {data.size} samples: lower training.batch.")
        self.data, self.batch, self.seeds = data, batch, seeds
        self._epoch = -1
        self._order = torch.empty(0)

    def __call__(self, step: int) -> Batch:
        """Return the batch of one step."""
        per_epoch = self.data.size // self.batch
        epoch, position = divmod(step, per_epoch)
        if epoch != self._epoch:
            self._epoch, self._order = epoch, self._shuffle(epoch)
        return self.data.batch(self._order[..., position * self.batch : (position + 1) * self.batch])

    def _shuffle(self, epoch: int) -> Tensor:
        orders = [
            torch.randperm(self.data.size, generator=generator(seed, "epoch", epoch)) for seed in self.seeds
        ]
        order = torch.stack(orders) if self.data.energy.ndim > 1 else orders[0]
        return order.to(self.data.energy.device)
