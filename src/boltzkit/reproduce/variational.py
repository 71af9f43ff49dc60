"""Training without data (the paper's Section 4.4): CMT, TA-BG and FAB with and without LDR, at several budgets."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
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

__all__ = ["VARIATIONAL_STUDIES", "VariationalScale", "VariationalStudy", "plan_variational"]

_EXPLANATION = (
    "No row has seen data in training: each learned from so many energy evaluations, kept to the unit; data serve for "
    "validation curves and the tests. "
)
_OURS = (
    "'published settings': a path as the paper's, from the untrained flow down a temperature ladder, each stage "
    "learned from its own weighted buffer; flow, steps and stages are those of the other rows. Other rows of CMT start "
    "from the harmonic expansion about the minimised structure, with the angles of random conformers relaxed, cool "
    "less far, begin each stage with averaged parameters, learn again from earlier buffers by weight, and go as far in "
    "a stage as the effective number of their samples allows; a row that says more after its method's name lacks one "
    "of these, and such rows have one seed and a fifth of the samples to judge them by. "
)


@dataclass(frozen=True)
class _Row:
    """One row: the recipe, and what of it is changed at a scale."""

    label: str
    recipe: str
    changes: tuple[str, ...] = ()


_PLAIN = ("objective.dispersion=none", "objective.data_weight=1")


def _with(kind: str) -> tuple[str, ...]:
    return (f"objective.dispersion={kind}", "objective.data_weight=0.3")


_PUBLISHED_PATH = (
    "annealing.hottest=4",
    "annealing.averaged=false",
    "annealing.start=reverse_kl",
    "annealing.pretraining=0",
    "annealing.relaxation=0",
    "annealing.reuse=1",
    "annealing.growth=1",
    "annealing.first_steps=null",
    "annealing.effective=null",
    "annealing.resampled=false",
)
"""CMT as published, but for the number of stages, which the scale says."""
_WITHOUT = {
    "one-structure": ("without relaxed conformers", ("annealing.relaxation=0",)),
    "no-start": (
        "from the untrained flow",
        ("annealing.start=reverse_kl", "annealing.pretraining=0", "annealing.relaxation=0"),
    ),
    "one-temperature": ("at the target's temperature throughout", ("annealing.path=geometric",)),
    "last-parameters": ("stages begun with the last parameters", ("annealing.averaged=false",)),
    "own-buffer": ("each stage from its own buffer", ("annealing.reuse=1",)),
    "trust": ("within the trust region alone", ("annealing.effective=null",)),
    "weighted": ("weights instead of draws by weight", ("annealing.resampled=false",)),
    "even-steps": ("stages of equal length", ("annealing.first_steps=null", "annealing.growth=1")),
}
"""What is ours in the path, each taken away."""
_METHODS = {
    "cmt": _Row("CMT", "cmt", _PLAIN),
    "cmt-ldr-l2": _Row("CMT + LDR-L2", "cmt", _with("l2")),
    "cmt-ldr-l1": _Row("CMT + LDR-L1", "cmt", _with("l1")),
    "cmt-published": _Row("CMT, published settings", "cmt", (*_PLAIN, *_PUBLISHED_PATH)),
    "cmt-published-ldr-l1": _Row("CMT + LDR-L1, published settings", "cmt", (*_with("l1"), *_PUBLISHED_PATH)),
    "only-ldr-l1": _Row("CMT with LDR-L1 alone", "cmt", ("objective.dispersion=l1", "objective.data=none")),
    "ta-bg": _Row("TA-BG", "ta-bg", _PLAIN),
    "ta-bg-ldr-l1": _Row("TA-BG + LDR-L1", "ta-bg", _with("l1")),
    "fab": _Row("FAB", "fab", _PLAIN),
    "fab-ldr-l1": _Row("FAB + LDR-L1", "fab", _with("l1")),
    **{
        f"cmt-ldr-l2-{key}": _Row(f"CMT + LDR-L2, {words}", "cmt", (*_with("l2"), *changes))
        for key, (words, changes) in _WITHOUT.items()
    },
}


@dataclass(frozen=True)
class VariationalScale:
    """How much of a study to run.

    Args:
        budgets: energy evaluations, and the rows that get so many.
        seeds: one independent experiment each.
        evaluation: model and test samples.
        changes: settings of all rows.
        by_row: further settings by budget and row, before those that make the row what it is.
        rates: learning rates to choose from by validation data; none takes the recipe's.
        single: rows with the first seed alone.
        brief: rows that are judged by a fifth of the samples.
        recipes: other recipes to take.
    """

    budgets: Mapping[int, tuple[str, ...]]
    seeds: tuple[int, ...]
    evaluation: EvaluationConfig
    changes: tuple[str, ...] = ()
    by_row: Callable[[int, str], tuple[str, ...]] = lambda budget, row: ()
    rates: tuple[float, ...] = ()
    single: tuple[str, ...] = ()
    brief: tuple[str, ...] = ()
    recipes: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class VariationalStudy:
    """One molecule at its scales."""

    title: str
    molecule: str
    scales: Mapping[str, VariationalScale]


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
            rows.append(Planned(str(budget), _METHODS[key].label, cell, paper))
    elsewhere = tuple(
        Row(str(budget), _METHODS[key].label, {}, numbers)
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
        _EXPLANATION + ("" if at_paper else _OURS) + EXPLANATION,
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
    row = _METHODS[key]
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
    seeds = scale.seeds[:1] if key in scale.single else scale.seeds
    return Cell(f"{budget}-{key}", f"{budget} {row.label}", config, seeds, tuning, keep=True)


def _fits(change: str, config: RunConfig) -> bool:
    """Whether a setting is of a group that the run has: paths are of annealed runs, for example."""
    return getattr(config, change.split("=")[0].split(".")[0], None) is not None


def _fifth(whole: EvaluationConfig) -> EvaluationConfig:
    return _judged(whole.samples // 5, whole.test_samples // 5)


def _judged(samples: int, test: int) -> EvaluationConfig:
    return EvaluationConfig(samples=samples, test_samples=test)


def _paper_steps(budget: int, row: str) -> tuple[str, ...]:
    """Return steps by budget: 400,000 at 10⁷ evaluations and beyond, in proportion below."""
    return (f"training.steps={min(400_000, 400_000 * budget // 10_000_000)}",)


_STEPS = {100_000: 3_000, 300_000: 6_000, 1_000_000: 18_000}


def _laptop_steps(budget: int, row: str) -> tuple[str, ...]:
    """Return settings by budget: on fewer evaluations fewer steps, lest they be learned by heart, bolder targets.

    Without LDR a flow learns early buffers by heart at the settings of the other rows, and loses its way: it takes
    smaller steps, 6,000 at most, and targets that keep more samples.
    """
    if not row.startswith(("cmt", "only")):
        return ()
    if row == "cmt":
        cautious = ("training.learning_rate=3e-4", "annealing.first_steps=30")
        steps = min(6_000, _STEPS[budget])
        return (*cautious, f"training.steps={steps}", f"annealing.effective={budget // 50}")
    return (f"training.steps={_STEPS[budget]}", f"annealing.effective={budget // 250}")


_SMOKE = VariationalScale(
    {3_000: ("cmt", "cmt-published-ldr-l1")},
    seeds=(0, 1),
    evaluation=_judged(400, 200),
    changes=(
        "flow.pairs=1",
        "flow.hidden=[8]",
        "flow.bins=4",
        "training.steps=12",
        "training.batch=32",
        "training.validate_every=6",
        "training.log_every=6",
        "annealing.stages=3",
        "annealing.pretraining=4",
        "data.validation_samples=60",
    ),
)
_ABLATIONS = (
    "cmt-ldr-l1",
    "only-ldr-l1",
    "cmt-published",
    "cmt-published-ldr-l1",
    *(f"cmt-ldr-l2-{key}" for key in _WITHOUT),
)
_DIPEPTIDE = VariationalScale(
    {
        100_000: ("cmt", "cmt-ldr-l2", *_ABLATIONS),
        300_000: ("cmt", "cmt-ldr-l2"),
        1_000_000: ("cmt", "cmt-ldr-l2"),
        3_000_000: ("fab", "fab-ldr-l1"),
        4_000_000: ("ta-bg", "ta-bg-ldr-l1"),
    },
    seeds=(10, 11),
    evaluation=_judged(1_000_000, 200_000),
    by_row=_laptop_steps,
    brief=_ABLATIONS,
    single=(*_ABLATIONS, "fab", "fab-ldr-l1", "ta-bg", "ta-bg-ldr-l1"),
)
_ISOLEUCINE = VariationalScale(
    {1_000_000: ("cmt-ldr-l2",)},
    seeds=(10,),
    evaluation=_judged(1_000_000, 200_000),
)
"""The recipe as it is."""
_HEXAPEPTIDE = VariationalScale(
    {3_500_000: ("cmt-ldr-l2",)},
    seeds=(10,),
    evaluation=_judged(200_000, 10_000),
    changes=(
        "annealing.hottest=3",
        "annealing.warmth=3",
        "annealing.stages=30",
        "annealing.cooling=0.9",
        "annealing.growth=1.5",
        "annealing.first_steps=150",
        "annealing.trust=1",
        "annealing.effective=null",
        "annealing.reuse=1",
        "annealing.pretraining=800",
        "annealing.relaxation_steps=20",
        "annealing.relaxed_torsions=true",
        "annealing.descent=3000",
        "annealing.dropped=50",
        "training.steps=6500",
        "training.learning_rate=7e-4",
        "training.clip=1000",
    ),
)
"""Many atoms overlap at the start of this one: forces drive them apart first, when hot, then the path begins."""


def _published(budgets: Mapping[int, tuple[str, ...]]) -> VariationalScale:
    return VariationalScale(
        budgets,
        seeds=(10, 11, 12, 13),
        evaluation=_judged(10_000_000, 10_000_000),
        by_row=_paper_steps,
        rates=(3.2e-5, 1e-4, 3.2e-4),
        recipes={"cmt": "cmt-paper"},
    )


_THREE = ("cmt", "cmt-ldr-l2", "cmt-ldr-l1")

VARIATIONAL_STUDIES: dict[str, VariationalStudy] = {
    "aldp-variational": VariationalStudy(
        "Alanine dipeptide without data",
        "alanine-dipeptide",
        {
            "smoke": _SMOKE,
            "laptop": _DIPEPTIDE,
            "paper": _published(
                {b: _THREE for b in (1_000_000, 5_000_000, 10_000_000, 20_000_000, 100_000_000)}
            ),
        },
    ),
    "ile-variational": VariationalStudy(
        "Isoleucine dipeptide without data", "ACE-ILE-NME", {"laptop": _ISOLEUCINE}
    ),
    "hexa-variational": VariationalStudy(
        "Alanine hexapeptide without data",
        "alanine-hexapeptide",
        {
            "laptop": _HEXAPEPTIDE,
            "paper": _published({b: _THREE for b in (100_000_000, 200_000_000, 400_000_000)}),
        },
    ),
}
"""Experiments without data by name."""
