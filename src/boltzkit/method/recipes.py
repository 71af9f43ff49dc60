"""Recipes: named functions that return a complete configuration."""

from collections.abc import Callable

from boltzkit.energy import TargetConfig
from boltzkit.errors import UserError, did_you_mean
from boltzkit.flow import SPLINE_PRESETS, TARFLOW_PRESETS, RealNVPConfig, SplineFlowConfig
from boltzkit.method.annealing import AnnealingConfig
from boltzkit.method.biased import ImportanceConfig, ReferenceConfig
from boltzkit.method.config import DataConfig, EvaluationConfig, ObjectiveConfig, RunConfig
from boltzkit.method.fab import FabConfig
from boltzkit.method.system import MoleculeConfig
from boltzkit.training import TrainingConfig

__all__ = [
    "RECIPES",
    "biased",
    "biased_paper",
    "cartesian",
    "cartesian_paper",
    "cmt",
    "cmt_paper",
    "fab",
    "find_recipe",
    "gmm",
    "many_well",
    "ta_bg",
    "unbiased",
    "unbiased_paper",
    "variational",
]


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
        flow=SplineFlowConfig(pairs=4, hidden=(48, 48)),
        objective=ObjectiveConfig(dispersion="l1", data_weight=0.3, warm_up=1_000),
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


def unbiased() -> RunConfig:
    """Learn a molecule (target.molecule) from a dataset of its samples (data.path): forward KL and LDR-L1."""
    return RunConfig(
        target=MoleculeConfig(molecule="alanine-dipeptide"),
        flow=SPLINE_PRESETS["laptop"],
        data=DataConfig(samples=100_000),
        objective=ObjectiveConfig(dispersion="l1", data_weight=0.3, warm_up=2_000),
        training=TrainingConfig(
            steps=20_000, batch=1024, learning_rate=1e-3, weight_decay=1e-5, warm_up=1_000, clip=100.0
        ),
    )


def unbiased_paper() -> RunConfig:
    """The same with the paper's flow, steps and samples, for a GPU; its learning rate and λ_data want tuning."""
    return RunConfig(
        target=MoleculeConfig(molecule="alanine-dipeptide"),
        flow=SPLINE_PRESETS["paper"],
        data=DataConfig(samples=1_000_000, validation_samples=50_000),
        objective=ObjectiveConfig(dispersion="l1", data_weight=0.3, warm_up=20_000),
        training=TrainingConfig(
            steps=250_000,
            batch=1024,
            learning_rate=3.2e-4,
            weight_decay=1e-5,
            validate_every=5_000,
            checkpoint_every=5_000,
        ),
        evaluation=EvaluationConfig(samples=10_000_000, test_samples=10_000_000),
    )


def biased() -> RunConfig:
    """Learn a molecule (target.molecule) from biased samples (data.path): a proposal, importance samples, LDR-L1."""
    base = unbiased()
    return base.model_copy(
        update={
            "data": DataConfig(samples=1_000_000, biased=True),
            "importance": ImportanceConfig(dispersion="l1", data_weight=0.3),
            "reference": ReferenceConfig(),
            "training": base.training.model_copy(
                update={"steps": 4_000, "learning_rate": 5e-4, "warm_up": 200}
            ),
            "objective": base.objective.model_copy(update={"warm_up": 1_000}),
            "evaluation": EvaluationConfig(samples=1_000_000, test_samples=200_000),
        }
    )


def biased_paper() -> RunConfig:
    """The same with the paper's flow, steps and samples, for a GPU; its learning rates and λ_data want tuning."""
    base = unbiased_paper()
    return base.model_copy(
        update={
            "data": base.data.model_copy(update={"biased": True}),
            "importance": ImportanceConfig(steps=250_000, held_out=0.0),
            "reference": ReferenceConfig(batch=1024),
            "objective": base.objective.model_copy(update={"warm_up": 50_000}),
        }
    )


def cartesian() -> RunConfig:
    """Learn a molecule (target.molecule) in Cartesian coordinates (data.path): TarFlow, forward KL and LDR-L1."""
    return RunConfig(
        target=MoleculeConfig(molecule="alanine-dipeptide-cartesian", one_handed=True),
        flow=TARFLOW_PRESETS["small"],
        data=DataConfig(samples=100_000),
        objective=ObjectiveConfig(dispersion="l1", dispersion_weight=0.3, warm_up=2_000),
        training=TrainingConfig(
            steps=8_000,
            batch=256,
            optimiser="adamw",
            betas=(0.9, 0.95),
            learning_rate=1e-3,
            weight_decay=4e-4,
            warm_up=400,
            clip=1.0,
            ema=0.999,
        ),
        evaluation=EvaluationConfig(samples=100_000, test_samples=20_000, clip=0.002, discard=True),
    )


def cartesian_paper() -> RunConfig:
    """The same with the paper's flow, steps and samples, for a GPU; its learning rate and λ_LD want tuning."""
    base = cartesian()
    return base.model_copy(
        update={
            "target": MoleculeConfig(molecule="alanine-dipeptide-cartesian"),
            "flow": TARFLOW_PRESETS["paper"],
            "objective": ObjectiveConfig(dispersion="l1", dispersion_weight=0.3, warm_up=100_000),
            "training": base.training.model_copy(
                update={
                    "steps": 400_000,
                    "batch": 1024,
                    "learning_rate": 1e-4,
                    "warm_up": 20_000,
                    "validate_every": 5_000,
                    "checkpoint_every": 5_000,
                }
            ),
            "evaluation": EvaluationConfig(
                samples=1_000_000, test_samples=1_000_000, clip=0.002, discard=True
            ),
        }
    )


def cmt() -> RunConfig:
    """Learn a molecule (target.molecule) from its energy alone: constrained mass transport with LDR-L2."""
    return RunConfig(
        target=MoleculeConfig(molecule="alanine-dipeptide"),
        flow=SPLINE_PRESETS["laptop"],
        objective=ObjectiveConfig(dispersion="l2", data_weight=0.3),
        annealing=AnnealingConfig(
            stages=24,
            growth=5,
            first_steps=100,
            reuse=12,
            effective=4_000,
            hottest=2.0,
            averaged=True,
            pretraining=800,
            start="harmonic",
            warmth=2.0,
            relaxation=0.05,
        ),
        training=_annealed_training(steps=12_000).model_copy(update={"learning_rate": 1e-3}),
        evaluation=EvaluationConfig(samples=1_000_000),
    )


def cmt_paper() -> RunConfig:
    """The same with the paper's flow, stages and steps, for a GPU; its learning rate and λ_data want tuning."""
    return RunConfig(
        target=MoleculeConfig(molecule="alanine-dipeptide"),
        flow=SPLINE_PRESETS["paper"],
        objective=ObjectiveConfig(dispersion="l1", data_weight=0.3),
        annealing=AnnealingConfig(evaluations=10_000_000, stages=200, held_out=0.0),
        training=TrainingConfig(
            steps=400_000, batch=1000, learning_rate=1e-4, weight_decay=1e-5, warm_up=1_000, clip=100.0
        ),
        evaluation=EvaluationConfig(samples=10_000_000, test_samples=10_000_000),
    )


def ta_bg() -> RunConfig:
    """Learn a molecule (target.molecule) from its energy alone: reverse KL when hot, then annealing (TA-BG)."""
    return RunConfig(
        target=MoleculeConfig(molecule="alanine-dipeptide"),
        flow=SPLINE_PRESETS["laptop"],
        annealing=AnnealingConfig(
            path="temperature",
            trust=None,
            stages=12,
            cooling=0.84,
            pretraining=4_000,
            dropped=20,
            clip=1e-4,
            evaluations=4_000_000,
        ),
        training=_annealed_training(steps=6_000),
        evaluation=EvaluationConfig(samples=1_000_000),
    )


def fab() -> RunConfig:
    """Learn a molecule (target.molecule) from its energy alone: flow annealed importance sampling (FAB)."""
    settings = FabConfig(evaluations=3_000_000, annealed=512)
    return RunConfig(
        target=MoleculeConfig(molecule="alanine-dipeptide"),
        flow=SPLINE_PRESETS["laptop"],
        fab=settings,
        training=TrainingConfig(
            steps=settings.updates * (settings.batches - settings.first),
            batch=512,
            learning_rate=5e-4,
            weight_decay=1e-5,
            warm_up=200,
            clip=1000.0,
            gradients="bfloat16",
            validate_every=200,
        ),
        evaluation=EvaluationConfig(samples=1_000_000),
    )


def _annealed_training(steps: int) -> TrainingConfig:
    """Return the descent of an annealed run."""
    return TrainingConfig(
        steps=steps,
        batch=512,
        learning_rate=5e-4,
        weight_decay=1e-5,
        warm_up=30,
        clip=100.0,
        gradients="bfloat16",
        validate_every=250,
    )


RECIPES: dict[str, Callable[[], RunConfig]] = {
    "gmm": gmm,
    "unbiased": unbiased,
    "unbiased-paper": unbiased_paper,
    "biased": biased,
    "biased-paper": biased_paper,
    "cartesian": cartesian,
    "cartesian-paper": cartesian_paper,
    "cmt": cmt,
    "cmt-paper": cmt_paper,
    "ta-bg": ta_bg,
    "fab": fab,
    "many-well": many_well,
    "variational": variational,
}


def find_recipe(name: str) -> RunConfig:
    """Return a recipe's configuration by name."""
    if name not in RECIPES:
        raise UserError(f"There is no recipe '{name}'.{did_you_mean(name, RECIPES)}")
    return RECIPES[name]()
