"""How much of the tables without data to run, molecule by molecule: budgets, steps and samples to judge by."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from boltzkit.method import EvaluationConfig
from boltzkit.reproduce.variational_rows import WITHOUT

__all__ = ["VARIATIONAL_STUDIES", "VariationalScale", "VariationalStudy"]

_OURS = (
    "'published settings': a path as the paper's, from the untrained flow down a temperature ladder, each stage "
    "learned from its own weighted buffer; flow, steps and stages are those of the other rows. Other rows of CMT start "
    "from the harmonic expansion about the minimised structure, with the angles of random conformers relaxed, cool "
    "less far, begin each stage with averaged parameters, learn again from earlier buffers by weight, and go as far in "
    "a stage as the effective number of their samples allows; a row that says more after its method's name lacks one "
    "of these, and such rows have one seed and a fifth of the samples to judge them by. "
)
_BY_FORCES = (
    "The flow starts from the harmonic expansion about the minimised structure, with bonds, angles and torsions of "
    "random conformers relaxed, goes on by the reverse KL at three times the temperature, and takes CMT's path from "
    "there, each stage from its own buffer and begun with averaged parameters. "
)


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
        single: rows with the first seed alone, by name, or by budget and name.
        brief: rows that are judged by a fifth of the samples.
        recipes: other recipes to take.
        path: what readers are told of the way that the rows go.
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
    path: str = ""


@dataclass(frozen=True)
class VariationalStudy:
    """One molecule at its scales."""

    title: str
    molecule: str
    scales: Mapping[str, VariationalScale]


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
    *(f"cmt-ldr-l2-{key}" for key in WITHOUT),
)
_DIPEPTIDE = VariationalScale(
    {
        100_000: ("cmt", "cmt-ldr-l2", *_ABLATIONS),
        300_000: ("cmt", "cmt-ldr-l2", "cmt-published-ldr-l1"),
        1_000_000: ("cmt", "cmt-ldr-l2"),
        3_000_000: ("fab", "fab-ldr-l1"),
        4_000_000: ("ta-bg", "ta-bg-ldr-l1"),
    },
    seeds=(10, 11),
    evaluation=_judged(1_000_000, 200_000),
    by_row=_laptop_steps,
    path=_OURS,
    brief=_ABLATIONS,
    single=(*_ABLATIONS, "300000-cmt", "fab", "fab-ldr-l1", "ta-bg", "ta-bg-ldr-l1"),
)
_ISOLEUCINE = VariationalScale(
    {1_000_000: ("cmt-ldr-l2",)},
    seeds=(10,),
    evaluation=_judged(1_000_000, 200_000),
    path=_OURS,
)
"""The recipe as it is."""
_HEXAPEPTIDE = VariationalScale(
    {3_500_000: ("cmt-ldr-l2",)},
    seeds=(10,),
    evaluation=_judged(200_000, 10_000),
    path=_BY_FORCES,
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
