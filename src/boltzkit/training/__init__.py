"""One step, one loop, checkpoints, exact resume."""

from boltzkit.training.arithmetic import arithmetic
from boltzkit.training.centre import LearnedCentre
from boltzkit.training.checkpoint import checkpoints, read_checkpoint, save_checkpoint, save_model
from boltzkit.training.config import TrainingConfig
from boltzkit.training.gradient_norm import sliding_variance
from boltzkit.training.loop import Problem, Watch, train
from boltzkit.training.memory import Memory
from boltzkit.training.parts import backward_in_parts, refuse_parts
from boltzkit.training.run_folder import RunFolder, provenance, read_origin
from boltzkit.training.state import TrainState
from boltzkit.training.step import StepInfo, train_step

__all__ = [
    "LearnedCentre",
    "Memory",
    "Problem",
    "RunFolder",
    "StepInfo",
    "TrainState",
    "TrainingConfig",
    "Watch",
    "arithmetic",
    "backward_in_parts",
    "checkpoints",
    "provenance",
    "read_checkpoint",
    "read_origin",
    "refuse_parts",
    "save_checkpoint",
    "save_model",
    "sliding_variance",
    "train",
    "train_step",
]
