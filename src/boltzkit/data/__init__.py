"""Energy-labelled data: what objectives learn from."""

from boltzkit.data.arrays import read_samples
from boltzkit.data.assignment import Assignment, assign
from boltzkit.data.autocorrelation import autocorrelation_time, effective_samples
from boltzkit.data.batches import EpochBatches
from boltzkit.data.bias import BiasUnit, FrameBias, GivenBias, bias_from_colvar, bias_from_file
from boltzkit.data.colvar import Colvar, read_colvar
from boltzkit.data.dataset import Dataset, Trajectory
from boltzkit.data.frame_weights import FrameWeights, frame_log_weights
from boltzkit.data.given_energies import read_energies
from boltzkit.data.label import Labeller, LabelResult
from boltzkit.data.labelled import LabelledData
from boltzkit.data.manifest import SPLITS, About, LeftOut, Manifest, Split
from boltzkit.data.stored import StoredBatches, load_labelled
from boltzkit.data.umbrella import Window, WindowBias, read_umbrella
from boltzkit.data.verification import Verification
from boltzkit.data.writer import DatasetWriter

__all__ = [
    "SPLITS",
    "About",
    "Assignment",
    "BiasUnit",
    "Colvar",
    "Dataset",
    "DatasetWriter",
    "EpochBatches",
    "FrameBias",
    "FrameWeights",
    "GivenBias",
    "LabelResult",
    "LabelledData",
    "Labeller",
    "LeftOut",
    "Manifest",
    "Split",
    "StoredBatches",
    "Trajectory",
    "Verification",
    "Window",
    "WindowBias",
    "assign",
    "autocorrelation_time",
    "bias_from_colvar",
    "bias_from_file",
    "effective_samples",
    "frame_log_weights",
    "load_labelled",
    "read_colvar",
    "read_energies",
    "read_samples",
    "read_umbrella",
]
