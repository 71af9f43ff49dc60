"""A learned centre for the log-dispersion, the alternative to the batch mean (trajectory balance)."""

import torch
from torch import nn

__all__ = ["LearnedCentre"]


class LearnedCentre(nn.Module):
    """One scalar per replica that tracks E[f], an estimate of log Z, by gradient descent."""

    def __init__(self, replicas: tuple[int, ...] = ()) -> None:
        super().__init__()
        self.value = nn.Parameter(torch.zeros(replicas))
