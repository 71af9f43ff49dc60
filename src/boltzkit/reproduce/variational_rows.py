"""Rows of tables without data: the method, with or without LDR, and what of ours is taken away from it."""

from dataclasses import dataclass

__all__ = ["METHODS", "WITHOUT", "VariationalRow"]


@dataclass(frozen=True)
class VariationalRow:
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
WITHOUT = {
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
METHODS = {
    "cmt": VariationalRow("CMT", "cmt", _PLAIN),
    "cmt-ldr-l2": VariationalRow("CMT + LDR-L2", "cmt", _with("l2")),
    "cmt-ldr-l1": VariationalRow("CMT + LDR-L1", "cmt", _with("l1")),
    "cmt-published": VariationalRow("CMT, published settings", "cmt", (*_PLAIN, *_PUBLISHED_PATH)),
    "cmt-published-ldr-l1": VariationalRow(
        "CMT + LDR-L1, published settings", "cmt", (*_with("l1"), *_PUBLISHED_PATH)
    ),
    "only-ldr-l1": VariationalRow(
        "CMT with LDR-L1 alone", "cmt", ("objective.dispersion=l1", "objective.data=none")
    ),
    "ta-bg": VariationalRow("TA-BG", "ta-bg", _PLAIN),
    "ta-bg-ldr-l1": VariationalRow("TA-BG + LDR-L1", "ta-bg", _with("l1")),
    "fab": VariationalRow("FAB", "fab", _PLAIN),
    "fab-ldr-l1": VariationalRow("FAB + LDR-L1", "fab", _with("l1")),
    **{
        f"cmt-ldr-l2-{key}": VariationalRow(f"CMT + LDR-L2, {words}", "cmt", (*_with("l2"), *changes))
        for key, (words, changes) in WITHOUT.items()
    },
}
"""Rows by name."""
