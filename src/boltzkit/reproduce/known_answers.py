"""Training without data where the answer is known: log Z, modes and verdicts of CMT, TA-BG and FAB."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from boltzkit.energy import TargetConfig
from boltzkit.flow import RealNVPConfig, SplineFlowConfig
from boltzkit.method import EvaluationConfig, ObjectiveConfig, RunConfig
from boltzkit.method.annealing import AnnealingConfig
from boltzkit.method.fab import FabConfig
from boltzkit.reproduce.cell import Cell
from boltzkit.reproduce.experiment import Experiment, Found, Planned
from boltzkit.reproduce.figures import by_method
from boltzkit.reproduce.table import Column
from boltzkit.training import TrainingConfig

__all__ = ["SCALES", "known_answers_experiment"]

COLUMNS = (
    Column("ess", "ESS / % ↑", 2, higher_is_better=True, scale=100, path="reverse.ess.value"),
    Column("forward_ess", "forward ESS / % ↑", 2, higher_is_better=True, scale=100, path="forward.fraction"),
    Column("missed", "missed / % ↓", 2, scale=100, path="missed"),
    Column("log_z", "(log Z − exact) / standard error", 2, path="log_z_deviation", ranked=False),
    Column("nll_gap", "NLL − target's ↓", 4, path="nll_gap"),
    Column("khat", "k̂ ↓", 2, path="reverse.pareto_k"),
)

_EXPLANATION = (
    "Mean ± standard deviation over seeds. All rows of a block have the same energy evaluations and no data; exact "
    "samples of the target judge them. missed: share of exact samples where the flow has less than a twentieth of the "
    "target's density, so that a lost mode shows whatever the weights say. k̂: shape of the tail of the weights; above "
    "0.7 no estimate is to be trusted. Bold: not significantly different from the best of its block."
)


@dataclass(frozen=True)
class Task:
    """A target, the flow that learns it, and the methods by which."""

    target: TargetConfig
    flow: RealNVPConfig | SplineFlowConfig
    methods: tuple[str, ...] = (
        "cmt",
        "cmt-ldr-l1",
        "cmt-unbound",
        "ta-bg",
        "ta-bg-ldr-l1",
        "fab",
        "fab-ldr-l1",
    )


@dataclass(frozen=True)
class Scale:
    """How much of the table to run.

    Args:
        tasks: what is learned, by name.
        seeds: one experiment each.
        steps: of the annealed methods.
        evaluations: of all methods.
        evaluation: model and test samples.
    """

    tasks: Mapping[str, Task]
    seeds: tuple[int, ...]
    steps: int
    evaluations: int
    evaluation: EvaluationConfig


@dataclass(frozen=True)
class _Method:
    """One row.

    Args:
        label: how it is called.
        group: the settings that make it one of the three, and their values.
        dispersion: the log-dispersion beside its forward KL.
    """

    label: str
    group: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    dispersion: str = "none"


_STAGES = 20
_CMT = {"stages": _STAGES, "reuse": 4, "hottest": 2.0}
_TA_BG = {"path": "temperature", "trust": None, "stages": 8, "cooling": 0.8, "hottest": 3.0, "dropped": 2}
_METHODS = {
    "cmt": _Method("CMT", "annealing", _CMT),
    "cmt-ldr-l1": _Method("CMT + LDR-L1", "annealing", _CMT, "l1"),
    "cmt-unbound": _Method("CMT without trust region", "annealing", {"stages": _STAGES, "trust": None, "hottest": 1.0}),
    "ta-bg": _Method("TA-BG", "annealing", _TA_BG),
    "ta-bg-ldr-l1": _Method("TA-BG + LDR-L1", "annealing", _TA_BG, "l1"),
    "fab": _Method("FAB", "fab"),
    "fab-ldr-l1": _Method("FAB + LDR-L1", "fab", dispersion="l1"),
}  # fmt: skip
_AFFINE = RealNVPConfig(layers=10, hidden=(64, 64), statistics="running")
_SPLINES = SplineFlowConfig(pairs=4, hidden=(48, 48))
"""For wells side by side in every dimension, which affine couplings do not separate."""
_BATCH = 256
_FAIR, _MANY = 0.7, 0.05
"""The k̂ below which estimates are to be trusted, and the share of a target that is too much to miss."""

SCALES = {
    "smoke": Scale(
        {"gmm": Task(TargetConfig(name="gmm"), _AFFINE)},
        (0, 1),
        40,
        60_000,
        EvaluationConfig(samples=2_000, test_samples=500),
    ),
    "laptop": Scale(
        {
            "Gaussian mixture, 2 dims": Task(TargetConfig(name="gmm"), _AFFINE),
            "many-well, 6 dims": Task(TargetConfig(name="many-well", dim=6), _SPLINES),
            "funnel, 4 dims": Task(TargetConfig(name="funnel", dim=4, scale=2.0), _AFFINE),
            # So far from where a flow starts that nothing but small steps leads there.
            "many-well, 12 dims": Task(TargetConfig(name="many-well", dim=12), _SPLINES, ("cmt", "cmt-unbound")),
        },
        (10, 11),
        2_000,
        300_000,
        EvaluationConfig(samples=200_000, test_samples=50_000),
    ),
}  # fmt: skip


def known_answers_experiment(scale_name: str) -> Experiment:
    """Return the table at a scale, target after target."""
    scale = SCALES[scale_name]
    rows = []
    for number, (name, task) in enumerate(scale.tasks.items()):
        for key in task.methods:
            method = _METHODS[key]
            cell = Cell(
                f"{number}-{key}",
                f"{name}: {method.label}",
                _config(method, task, scale),
                scale.seeds,
                None,
            )
            rows.append(Planned(name, method.label, cell))
    return Experiment(
        "Known answers without data",
        f"Known answers without data, scale {scale_name}",
        COLUMNS,
        "target",
        tuple(rows),
        _EXPLANATION,
        _honesty,
        (by_method(COLUMNS, ("ess", "missed")),),
    )


def _config(method: _Method, task: Task, scale: Scale) -> RunConfig:
    objective = {} if method.dispersion == "none" else {"dispersion": method.dispersion, "data_weight": 0.3}
    training = TrainingConfig(
        steps=scale.steps,
        batch=_BATCH,
        learning_rate=1e-3,
        warm_up=min(50, scale.steps // 4),
        clip=100.0,
        validate_every=max(1, scale.steps // 10),
    )
    settings: dict[str, Any] = {"evaluations": scale.evaluations, **method.settings}
    groups: dict[str, Any] = {}
    if method.group == "fab":
        config = FabConfig(evaluations=scale.evaluations, annealed=_BATCH, intermediate=4, leaps=3)
        steps = config.updates * max(1, config.batches - config.first)
        groups, training = {"fab": config}, training.model_copy(update={"steps": steps})
    else:
        if settings.get("path") == "temperature":
            settings["pretraining"] = scale.evaluations // (2 * _BATCH)
        groups = {"annealing": AnnealingConfig(**settings)}
    return RunConfig(
        target=task.target,
        flow=task.flow,
        objective=ObjectiveConfig(**objective),
        training=training,
        evaluation=scale.evaluation,
        **groups,
    )


def _honesty(found: Sequence[Found]) -> str:
    """Say whether what is trusted is right, and what is wrong is not trusted."""
    runs = [run for one in found for run in one.result["runs"] if run["log_z_deviation"] is not None]
    trusted = [abs(run["log_z_deviation"]) for run in runs if run["verdict"] == "trust"]
    fair = [abs(run["log_z_deviation"]) for run in runs if _is_fair(run["reverse"]["pareto_k"])]
    missing = [run["verdict"] for run in runs if run["missed"] > _MANY]
    return (
        f"Of {len(runs)} runs {len(trusted)} are said to be trusted, and their log Z lies {_most(trusted)} standard "
        f"errors from the exact one at most; {len(fair)} have k̂ < {_FAIR}, at most {_most(fair)}. {len(missing)} runs "
        f"miss more than {100 * _MANY:.0f} % of their target; {len(missing) - missing.count('trust')} of these are not "
        "trusted."
    )


def _most(values: Sequence[float]) -> str:
    return f"{max(values):.1f}" if values else "–"


def _is_fair(k: float | None) -> bool:
    return k is not None and k < _FAIR
