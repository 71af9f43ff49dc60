"""Reverse KL: energies of the model's own samples."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from boltzkit.objective.mean import Order, Total, local_order, local_total, weighted_mean

__all__ = ["ReverseKL"]


@dataclass(frozen=True)
class ReverseKL:
    r"""KL(q‖p) up to log Z: $\mathbb E_{x\sim q}[\log q(x) + u(x)]$.

    Costs one energy evaluation per sample and step, and collapses onto few modes when it starts far from the
    target. Samples whose energy is not finite are left out and counted by the training loop.

    Args:
        drop_highest: how many of the highest energies of a batch to leave out (TA-BG drops 10 to 20), which
            keeps a few clashing structures from ruling the gradient.
        total: how to sum over the batch; see `weighted_mean`.
        order: how to rank energies over the batch.
    """

    own_samples: ClassVar[bool] = True
    energy_gradients: ClassVar[bool] = False
    drop_highest: int = 0
    total: Total = local_total
    order: Order = local_order

    def __call__(self, log_prob: Tensor, energy: Tensor) -> Tensor:
        """Return the mean of log q + u over model samples, ``(..., batch) -> (...)``."""
        keep = torch.isfinite(energy)
        if self.drop_highest:
            place = self.order(torch.where(keep, energy.detach(), torch.inf))
            n = self.total(torch.ones_like(place)).unsqueeze(-1)
            keep = keep & (place < n - self.drop_highest)
        return weighted_mean(log_prob + energy, keep=keep, total=self.total)
