"""What training minimises: small callables on log-densities and energies."""

from boltzkit.objective.batch import Batch, ModelBatch, counted, draw_batch
from boltzkit.objective.forward_kl import ForwardKL
from boltzkit.objective.log_dispersion import LogDispersion
from boltzkit.objective.objective import DataTerm, Loss, Objective, warm_up
from boltzkit.objective.path_gradient import PathGradientForwardKL
from boltzkit.objective.reverse_kl import ReverseKL

__all__ = [
    "Batch",
    "DataTerm",
    "ForwardKL",
    "LogDispersion",
    "Loss",
    "ModelBatch",
    "Objective",
    "PathGradientForwardKL",
    "ReverseKL",
    "counted",
    "draw_batch",
    "warm_up",
]
