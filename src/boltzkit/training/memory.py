"""Batches that remember: buffers of samples that belong to the state of a training."""

from abc import ABC, abstractmethod

from torch import Tensor

from boltzkit.flow import Flow
from boltzkit.objective import Batch

__all__ = ["Memory"]


class Memory(ABC):
    """Step -> batch, with a state of its own that checkpoints hold, so that a resumed run sees the same batches."""

    @abstractmethod
    def __call__(self, step: int) -> Batch:
        """Return the batch of a step; steps come in order."""

    @abstractmethod
    def tensors(self) -> dict[str, Tensor]:
        """Return the state under flat names."""

    @abstractmethod
    def load(self, tensors: dict[str, Tensor]) -> None:
        """Go on from a state."""

    @abstractmethod
    def figures(self, flow: Flow) -> dict[str, Tensor]:
        """Return numbers for the metrics, beside those of validation."""
