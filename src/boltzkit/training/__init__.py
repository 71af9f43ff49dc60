"""One step, one loop, checkpoints, exact resume."""

from boltzkit.training.centre import LearnedCentre
from boltzkit.training.checkpoint import checkpoints, read_checkpoint, save_checkpoint
from boltzkit.training.config import TrainingConfig
from boltzkit.training.loop import Problem, Watch, train
from boltzkit.training.run_folder import RunFolder, provenance
from boltzkit.training.state import TrainState
from boltzkit.training.step import StepInfo, train_step

__all__ = [
    "LearnedCentre",
    "Problem",
    "RunFolder",
    "StepInfo",
    "TrainState",
    "TrainingConfig",
    "Watch",
    "checkpoints",
    "provenance",
    "read_checkpoint",
    "save_checkpoint",
    "train",
    "train_step",
]
