"""Training without data (the paper's Section 4.4): CMT, TA-BG and FAB with and without LDR, at several budgets."""

from pathlib import Path

from boltzkit.method import EvaluationConfig, MoleculeConfig, RunConfig, TuneConfig, find_recipe
from boltzkit.reproduce.cell import Cell
from boltzkit.reproduce.experiment import Experiment, Planned
from boltzkit.reproduce.figures import by_method, by_size
from boltzkit.reproduce.published import VARIATIONAL
from boltzkit.reproduce.report import gain_without_data
from boltzkit.reproduce.study import COLUMNS, EXPLANATION, checked_samples
from boltzkit.reproduce.table import Row
from boltzkit.reproduce.training_figures import path_to_target, ramachandran, validation_curves
from boltzkit.reproduce.variational_rows import METHODS
from boltzkit.reproduce.variational_scales import VariationalScale, VariationalStudy

__all__ = ["plan_variational"]

_EXPLANATION = (
    "No row has seen data in training: each learned from so many energy evaluations, kept to the unit; data serve for "
    "validation curves and the tests. "
)


def plan_variational(
    study: VariationalStudy, scale_name: str, data: Path | None, device: str, out: Path
) -> Experiment:
    """Return the table of a study at a scale; the dataset judges and teaches nothing."""
    scale = study.scales[scale_name]
    path = checked_samples(study.molecule, data, 1, scale.evaluation.test_samples)
    published = VARIATIONAL.get(study.molecule, {})
    at_paper = scale_name == "paper"
    rows = []
    for budget, keys in scale.budgets.items():
        for key in keys:
            cell = _cell(study.molecule, scale, budget, key, path, device)
            paper = published.get(budget, {}).get(key, {}) if at_paper else {}
            rows.append(Planned(str(budget), METHODS[key].label, cell, paper))
    elsewhere = tuple(
        Row(str(budget), METHODS[key].label, {}, numbers)
        for budget, by_key in published.items()
        for key, numbers in by_key.items()
        if not at_paper or key not in scale.budgets.get(budget, ())
    )
    return Experiment(
        study.title,
        f"{study.title}, scale {scale_name}",
        COLUMNS,
        "evaluations",
        tuple(rows),
        _EXPLANATION + scale.path + EXPLANATION,
        gain_without_data,
        (
            by_size(COLUMNS, ("nll", "ess"), "the number of energy evaluations", elsewhere),
            by_method(COLUMNS, ("nll", "ess")),
            path_to_target,
            validation_curves("evaluations"),
            ramachandran,
        ),
        elsewhere,
        longest_first=True,
    )


def _cell(molecule: str, scale: VariationalScale, budget: int, key: str, path: Path, device: str) -> Cell:
    row = METHODS[key]
    config = find_recipe(scale.recipes.get(row.recipe, row.recipe))
    base = config.model_copy(
        update={
            "target": MoleculeConfig(molecule=molecule),
            "data": config.data.model_copy(update={"path": str(path), "validation_samples": 10_000}),
            "evaluation": _fifth(scale.evaluation) if key in scale.brief else scale.evaluation,
            "device": device,
        }
    )
    group = "fab" if base.fab is not None else "annealing"
    changes = (*scale.changes, *scale.by_row(budget, key), *row.changes)
    fitting = [change for change in changes if _fits(change, base)]
    config = base.with_overrides([f"{group}.evaluations={budget}", *fitting])
    tuning = None
    if scale.rates:
        weights = (config.objective.data_weight,)
        tuning = TuneConfig(learning_rates=scale.rates, data_weights=weights, seeds=(1_001,))
    name = f"{budget}-{key}"
    seeds = scale.seeds[:1] if key in scale.single or name in scale.single else scale.seeds
    return Cell(name, f"{budget} {row.label}", config, seeds, tuning, keep=True)


def _fits(change: str, config: RunConfig) -> bool:
    """Whether a setting is of a group that the run has: paths are of annealed runs, for example."""
    return getattr(config, change.split("=")[0].split(".")[0], None) is not None


def _fifth(whole: EvaluationConfig) -> EvaluationConfig:
    return EvaluationConfig(samples=whole.samples // 5, test_samples=whole.test_samples // 5)
