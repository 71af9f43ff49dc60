"""A learned centre for the log-dispersion, the alternative to the batch mean (trajectory balance)."""

import torch
from torch import Tensor, nn

__all__ = ["LearnedCentre"]

_REACH = 100.0
"""How many times as far as a weight the centre moves in a step: weights are of order one, log Z is not."""


class LearnedCentre(nn.Module):
    """One scalar per replica that tracks E[f], an estimate of log Z, by gradient descent from a place it is given."""

    origin: Tensor

    def __init__(self, replicas: tuple[int, ...] = ()) -> None:
        super().__init__()
        self.register_buffer("origin", torch.zeros(replicas))
        self.offset = nn.Parameter(torch.zeros(replicas))

    def forward(self) -> Tensor:
        """Return the centre, ``(*replicas,)``, whose gradient is the offset's: it must not weigh in the clipping."""
        return self.origin + self.offset + (_REACH - 1) * self.offset.detach()

    @torch.no_grad()
    def begin(self, mean: Tensor) -> None:
        """Start from a mean of f; replicas that have none stay where they are."""
        self.origin.copy_(torch.where(mean.isfinite(), mean - _REACH * self.offset, self.origin))
