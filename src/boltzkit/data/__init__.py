"""Energy-labelled data: what objectives learn from."""

from boltzkit.data.arrays import read_samples
from boltzkit.data.batches import EpochBatches
from boltzkit.data.dataset import Dataset, Trajectory
from boltzkit.data.given_energies import read_energies
from boltzkit.data.label import Labeller, LabelResult
from boltzkit.data.labelled import LabelledData
from boltzkit.data.manifest import SPLITS, About, LeftOut, Manifest, Split
from boltzkit.data.stored import StoredBatches, load_labelled
from boltzkit.data.verification import Verification
from boltzkit.data.writer import DatasetWriter

__all__ = [
    "SPLITS",
    "About",
    "Dataset",
    "DatasetWriter",
    "EpochBatches",
    "LabelResult",
    "LabelledData",
    "Labeller",
    "LeftOut",
    "Manifest",
    "Split",
    "StoredBatches",
    "Trajectory",
    "Verification",
    "load_labelled",
    "read_energies",
    "read_samples",
]
