"""How a flow gets trained: configurations, recipes, methods, the tuner."""

from boltzkit.method.config import DataConfig, EvaluationConfig, ObjectiveConfig, RunConfig
from boltzkit.method.evaluate import Evaluation, evaluate, judge
from boltzkit.method.evidence import Evidence, gather
from boltzkit.method.fit import build_problem, fit, fit_side_by_side
from boltzkit.method.model import Model, load
from boltzkit.method.pace import seconds_per_step
from boltzkit.method.recipes import (
    RECIPES,
    find_recipe,
    gmm,
    many_well,
    variational,
)
from boltzkit.method.source import training_data
from boltzkit.method.system import MoleculeConfig
from boltzkit.method.trial import Trial
from boltzkit.method.tune import TuneConfig, Tuning, tune, tuning_steps

__all__ = [
    "RECIPES",
    "DataConfig",
    "Evaluation",
    "EvaluationConfig",
    "Evidence",
    "Model",
    "MoleculeConfig",
    "ObjectiveConfig",
    "RunConfig",
    "Trial",
    "TuneConfig",
    "Tuning",
    "build_problem",
    "evaluate",
    "find_recipe",
    "fit",
    "fit_side_by_side",
    "gather",
    "gmm",
    "judge",
    "load",
    "many_well",
    "seconds_per_step",
    "training_data",
    "tune",
    "tuning_steps",
    "variational",
]
