"""Batches for a flow on all of space: each configuration turned and moved anew, every time it is seen."""

from collections.abc import Callable

from boltzkit.coordinates import Augmentation
from boltzkit.objective import Batch, ModelBatch
from boltzkit.randomness import generator

__all__ = ["AugmentedBatches"]


class AugmentedBatches:
    """Step -> an augmented batch; a function of (seed, step) alone if the batches are.

    Energies stay, since they do not depend on where a molecule is; gradients turn along and gain that of the noise.

    Args:
        batches: step -> batch.
        augmentation: turns and noise.
        seed: of both.
        purpose: tells several sources of one run apart.
    """

    def __init__(
        self,
        batches: Callable[[int], Batch | ModelBatch],
        augmentation: Augmentation,
        seed: int,
        purpose: str,
    ) -> None:
        self.batches, self.augmentation, self.seed, self.purpose = batches, augmentation, seed, purpose

    def __call__(self, step: int) -> Batch:
        """Return the batch of one step."""
        batch = self.batches(step)
        assert isinstance(batch, Batch), "samples of the flow itself stand where it puts them"
        # Drawn on the CPU: the same whatever the device.
        own = generator(self.seed, f"turns and noise, {self.purpose}", step)
        x, gradient = self.augmentation.augment_labels(batch.x, batch.gradient, own)
        return batch.replace(x=x, gradient=gradient)
