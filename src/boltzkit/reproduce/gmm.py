"""The paper's Gaussian-mixture table: four objectives, three data sizes, four seeds."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from boltzkit.method import ObjectiveConfig, RunConfig, TuneConfig, gmm
from boltzkit.reproduce.cell import Cell
from boltzkit.reproduce.experiment import Experiment, Planned
from boltzkit.reproduce.figures import by_size
from boltzkit.reproduce.gmm_figures import densities
from boltzkit.reproduce.report import gain
from boltzkit.reproduce.table import Column

__all__ = ["COLUMNS", "METHODS", "SCALES", "gmm_experiment"]

COLUMNS = (
    Column("nll", "NLL ↓", 3, path="nll.value"),
    Column("nll_gap", "NLL − target's ↓", 4, path="nll_gap"),
    Column("ess", "ESS / % ↑", 2, higher_is_better=True, scale=100, path="reverse.ess_clipped"),
    Column("ess_raw", "raw ESS / % ↑", 2, higher_is_better=True, scale=100, path="reverse.ess.value"),
    Column("forward_ess", "forward ESS / % ↑", 2, higher_is_better=True, scale=100, path="forward.fraction"),
)

_EXPLANATION = (
    "Mean ± standard deviation over independent experiments (own training data and start each), the published "
    "values in brackets. Bold: not significantly different from the best of its block (two-sided Welch's t-test, "
    "α = 0.05). ESS: reverse, from fresh model samples, the largest 0.01 % of the weights clipped; raw ESS without "
    "clipping; forward ESS on the test set. NLL − target's: difference to the exact target's NLL on the same test "
    "samples, an estimate of KL(p‖q) without the test set's noise."
)


@dataclass(frozen=True)
class Method:
    """One row of the table, with the paper's NLL and ESS (mean, standard deviation) by data size.

    Path gradients are no gradient of a bounded loss on a finite data set and drift away at rates that suit the
    others: their grid starts lower and their gradient norm is clipped. Squared deviations of a few outliers can throw
    a flow away for good: LDR-L2's gradient norm is bounded at a value that ordinary steps do not reach. Where little
    data overfits, forward KL does best at rates above its grid, at which it too may be thrown away.
    """

    label: str
    objective: dict[str, Any]
    paper: dict[int, tuple[tuple[float, float], tuple[float, float]]]
    learning_rate: float = 1e-3
    learning_rates: tuple[float, ...] = (3.2e-4, 1e-3, 3.2e-3)
    clip: float | None = None
    beyond: int = 0
    differently: Mapping[int, dict[str, Any]] = field(default_factory=dict)
    """Fields that have another value at some data sizes."""

    def at(self, size: int) -> "Method":
        """Return the method as it is at a data size."""
        return replace(self, **self.differently.get(size, {}))


METHODS = {
    "forward-kl": Method(
        "fwd KL",
        {},
        {500: ((2.850, 0.061), (77.76, 6.90)), 1000: ((2.791, 0.013), (86.47, 1.43)),
         10_000: ((2.733, 0.003), (96.75, 0.46))},
        learning_rates=(1e-4, 3.2e-4, 1e-3),
        differently={
            500: {"learning_rates": (1e-3, 3.2e-3, 1e-2), "clip": 100.0},
            1000: {"beyond": 3},
        },
    ),
    "path-gradient": Method(
        "fwd KL (path gradients)",
        {"data": "path_gradient"},
        {500: ((2.812, 0.008), (77.97, 5.32)), 1000: ((2.777, 0.027), (86.82, 5.43)),
         10_000: ((2.726, 0.002), (97.54, 1.44))},
        learning_rate=1e-4,
        learning_rates=(1e-5, 3.2e-5, 1e-4),
        clip=1.0,
    ),
    "ldr-l2": Method(
        "fwd KL + LDR-L2",
        {"dispersion": "l2", "data_weight": 0.3},
        {500: ((2.736, 0.003), (95.26, 2.48)), 1000: ((2.725, 0.001), (98.62, 0.31)),
         10_000: ((2.730, 0.014), (97.54, 2.50))},
        clip=100.0,
    ),
    "ldr-l1": Method(
        "fwd KL + LDR-L1",
        {"dispersion": "l1", "data_weight": 0.3},
        {500: ((2.734, 0.004), (96.98, 0.60)), 1000: ((2.727, 0.004), (96.83, 2.60)),
         10_000: ((2.720, 0.001), (99.47, 0.29))},
    ),
}  # fmt: skip


@dataclass(frozen=True)
class Scale:
    """How much of the table to run.

    Args:
        sizes: training-set sizes and the tuning of each; None takes the recipe's learning rate and λ_data.
        methods: keys of `METHODS`.
        seeds: one independent experiment each.
        steps: gradient steps.
    """

    sizes: Mapping[int, TuneConfig | None]
    methods: tuple[str, ...]
    seeds: tuple[int, ...]
    steps: int


_WEIGHTS = (0.1, 0.3, 0.7)
_TUNING = TuneConfig(seeds=(1_001, 1_002), keep=0.15, data_weights=_WEIGHTS)
_TUNING_BY_SIZE = {
    size: _TUNING.model_copy(update={"rungs": rungs})
    for size, rungs in {500: (0.1, 1.0), 1000: (0.1, 0.5), 10_000: (0.03, 0.15)}.items()
}
"""How much small data overfits depends on the length of the run, so there the last rung is the whole length; at
10,000 samples a step costs six times as much and hardly overfits, and 1,500 steps tell enough."""

SCALES = {
    "demo": Scale({500: None}, ("forward-kl", "ldr-l1"), seeds=(0, 1, 2), steps=800),
    "laptop": Scale({500: None, 1000: None}, tuple(METHODS), seeds=(0, 1), steps=4000),
    "paper": Scale(_TUNING_BY_SIZE, tuple(METHODS), seeds=(10, 11, 12, 13), steps=10_000),
}


def gmm_experiment(scale_name: str) -> Experiment:
    """Return the table at a scale (demo, laptop, paper), small data first."""
    scale = SCALES[scale_name]
    rows = []
    for size, tuning in scale.sizes.items():
        for key in scale.methods:
            method = METHODS[key].at(size)
            config = _config(size, method, scale)
            if tuning is not None:
                grid = {"learning_rates": method.learning_rates, "beyond": method.beyond}
                tuning = tuning.model_copy(update=grid)
            cell = Cell(f"{size}-{key}", f"{size} {method.label}", config, scale.seeds, tuning)
            rows.append(Planned(str(size), method.label, cell, _paper(method, size)))
    return Experiment(
        "Log-dispersion regularization on the Gaussian mixture",
        f"Gaussian mixture, scale {scale_name}",
        COLUMNS,
        "samples",
        tuple(rows),
        _EXPLANATION,
        gain,
        (densities, by_size(COLUMNS, ("ess",))),
    )


def _config(size: int, method: Method, scale: Scale) -> RunConfig:
    config = gmm()
    objective = ObjectiveConfig(**method.objective, warm_up=scale.steps // 10)
    training = config.training.model_copy(
        update={
            "steps": scale.steps,
            "batch": size // 10,
            "learning_rate": method.learning_rate,
            "clip": method.clip,
        }
    )
    data = config.data.model_copy(update={"samples": size})
    update: dict[str, Any] = {"objective": objective, "training": training, "data": data}
    if objective.data == "path_gradient":
        update["flow"] = config.flow.model_copy(update={"statistics": "running"})
    return config.model_copy(update=update)


def _paper(method: Method, size: int) -> dict[str, tuple[float, float]]:
    return dict(zip(("nll", "ess"), method.paper[size], strict=True)) if size in method.paper else {}
