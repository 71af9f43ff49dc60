"""Recipes: named functions that return a complete configuration."""

from collections.abc import Callable

from boltzkit.energy import TargetConfig
from boltzkit.errors import UserError, did_you_mean
from boltzkit.flow import SPLINE_PRESETS, RealNVPConfig
from boltzkit.method.config import DataConfig, EvaluationConfig, ObjectiveConfig, RunConfig
from boltzkit.method.system import MoleculeConfig
from boltzkit.training import TrainingConfig

__all__ = ["RECIPES", "alanine_dipeptide", "find_recipe", "gmm", "many_well", "variational"]


def gmm() -> RunConfig:
    """Learn the paper's four-mode Gaussian mixture from 500 samples (forward KL; add objective.dispersion=l1)."""
    return RunConfig(
        data=DataConfig(samples=500),
        training=TrainingConfig(steps=10_000, batch=50, learning_rate=1e-3),
        objective=ObjectiveConfig(warm_up=1_000),
    )


def many_well() -> RunConfig:
    """Learn the eight-dimensional many-well from 5,000 samples with LDR-L1."""
    return RunConfig(
        target=TargetConfig(name="many-well", dim=8),
        data=DataConfig(samples=5_000),
        flow=RealNVPConfig(layers=10, hidden=(64, 64)),
        objective=ObjectiveConfig(dispersion="l1", data_weight=0.5, warm_up=1_000),
        training=TrainingConfig(steps=5_000, batch=500, learning_rate=1e-3),
    )


def variational() -> RunConfig:
    """Learn the mixture from its energy alone by the reverse KL, without any data."""
    return RunConfig(
        flow=RealNVPConfig(layers=10, hidden=(64, 64), statistics="running"),
        objective=ObjectiveConfig(data="reverse_kl"),
        training=TrainingConfig(steps=3_000, batch=256, learning_rate=1e-3, clip=100.0),
        evaluation=EvaluationConfig(samples=50_000),
    )


def alanine_dipeptide() -> RunConfig:
    """Learn alanine dipeptide from a dataset of its samples, given as data.path (forward KL and LDR-L1)."""
    return RunConfig(
        target=MoleculeConfig(molecule="alanine-dipeptide"),
        flow=SPLINE_PRESETS["laptop"],
        data=DataConfig(samples=100_000),
        objective=ObjectiveConfig(dispersion="l1", data_weight=0.3, warm_up=2_000),
        training=TrainingConfig(
            steps=20_000, batch=1024, learning_rate=1e-3, weight_decay=1e-5, warm_up=1_000, clip=100.0
        ),
    )


RECIPES: dict[str, Callable[[], RunConfig]] = {
    "gmm": gmm,
    "alanine-dipeptide": alanine_dipeptide,
    "many-well": many_well,
    "variational": variational,
}


def find_recipe(name: str) -> RunConfig:
    """Return a recipe's configuration by name."""
    if name not in RECIPES:
        raise UserError(f"There is no recipe '{name}'.{did_you_mean(name, RECIPES)}")
    return RECIPES[name]()
