"""How a flow gets trained: configurations, recipes, methods, the tuner."""

from boltzkit.method.config import DataConfig, EvaluationConfig, ObjectiveConfig, RunConfig
from boltzkit.method.evaluate import Evaluation, evaluate
from boltzkit.method.model import Model, load
from boltzkit.method.recipes import RECIPES, alanine_dipeptide, find_recipe, gmm, many_well, variational
from boltzkit.method.system import MoleculeConfig
from boltzkit.method.tune import Trial, TuneConfig, Tuning, tune
from boltzkit.method.unbiased import build_problem, fit, fit_side_by_side, training_data

__all__ = [
    "RECIPES",
    "DataConfig",
    "Evaluation",
    "EvaluationConfig",
    "Model",
    "MoleculeConfig",
    "ObjectiveConfig",
    "RunConfig",
    "Trial",
    "TuneConfig",
    "Tuning",
    "alanine_dipeptide",
    "build_problem",
    "evaluate",
    "find_recipe",
    "fit",
    "fit_side_by_side",
    "gmm",
    "load",
    "many_well",
    "training_data",
    "tune",
    "variational",
]
