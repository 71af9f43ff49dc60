"""Energy-labelled data: what objectives learn from."""

from boltzkit.data.arrays import read_samples
from boltzkit.data.batches import EpochBatches
from boltzkit.data.labelled import LabelledData

__all__ = ["EpochBatches", "LabelledData", "read_samples"]
