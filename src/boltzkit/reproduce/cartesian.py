"""Training in Cartesian coordinates (the paper's Section 4.5): corrections, objectives, and path gradients with LDR."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from boltzkit.flow import TARFLOW_PRESETS, TarFlowConfig
from boltzkit.method import EvaluationConfig, MoleculeConfig, RunConfig, TuneConfig, find_recipe
from boltzkit.reproduce.cell import Cell
from boltzkit.reproduce.experiment import Experiment, Planned
from boltzkit.reproduce.figures import by_method
from boltzkit.reproduce.published import CARTESIAN
from boltzkit.reproduce.report import gain
from boltzkit.reproduce.study import COLUMNS, START, checked_samples
from boltzkit.reproduce.table import Column, Row
from boltzkit.reproduce.training_figures import ramachandran, validation_curves

__all__ = ["CARTESIAN_STUDIES", "CartesianScale", "CartesianStudy", "plan_cartesian"]

_COLUMNS = (
    *(column for column in COLUMNS if not column.key.startswith("tica")),
    Column("mirror", "mirror images / % ↓", 2, scale=100, path="mirror_images"),
)
_EXPLANATION = (
    "TarFlow on Cartesian coordinates, augmented by turns and by noise of the centre. Mean ± standard deviation over "
    "independent experiments (own draw of training samples and own start each). Bold: not significantly different from "
    "the best of its block (two-sided Welch's t-test, α = 0.05). All rows train for about the same time: steps of path "
    "gradients cost more, so that there are fewer of them. Where there is a common start, each seed's rows go on from "
    "the same flow, trained by the forward KL. NLL in the published convention, that of the augmented "
    "distribution. ESS: reverse, the largest 0.2 % of the weights left out as in the published table; raw ESS with all "
    "of them. 'χ₃ correction' is the published earlier correction of the centre's law, on the flows of the row below. "
    "Mirror images and methyls with exchanged hydrogens weigh nothing; mirror images are also counted by themselves."
)


@dataclass(frozen=True)
class _Row:
    """One row: its objective and its correction; or another row, whose flows it judges by that correction."""

    label: str
    objective: Mapping[str, Any] = field(default_factory=dict)
    correction: str = "gaussian"
    flows_of: str | None = None


_METHODS = {
    "forward-kl-chi": _Row("fwd KL, χ₃ correction", correction="chi", flows_of="forward-kl"),
    "forward-kl": _Row("fwd KL"),
    "path-gradient": _Row("fwd KL (path gradients)", {"data": "path_gradient"}),
    "ldr-l2": _Row("fwd KL + LDR-L2", {"dispersion": "l2"}),
    "ldr-l1": _Row("fwd KL + LDR-L1", {"dispersion": "l1"}),
    "path-ldr-l1": _Row("fwd KL (path gradients) + LDR-L1", {"data": "path_gradient", "dispersion": "l1"}),
}


@dataclass(frozen=True)
class CartesianScale:
    """How much of a study to run, and with what flow.

    Args:
        samples: training samples.
        steps: gradient steps of the forward KL, those of a common start not counted.
        flow: the architecture.
        batch: samples per step.
        seeds: one independent experiment each.
        dispersion_weight: λ_LD, with λ_data = 1.
        evaluation: model and test samples.
        rates: learning rates to choose from by validation, on a tenth of the steps; a single one is taken as it is.
        path_steps: share of the steps that path gradients take in the same time.
        overrides: further settings of training.
        start_steps: gradient steps of the forward KL that all rows of a seed begin with.
        start_rate: learning rate of these.
    """

    samples: int
    steps: int
    flow: TarFlowConfig
    batch: int
    seeds: tuple[int, ...]
    dispersion_weight: float
    evaluation: EvaluationConfig
    rates: tuple[float, ...]
    path_steps: float
    overrides: Mapping[str, Any] = field(default_factory=dict)
    start_steps: int = 0
    start_rate: float = 0.0


@dataclass(frozen=True)
class CartesianStudy:
    """One molecule.

    Args:
        title: of the page.
        molecule: its name.
        scales: what can be run.
        spread: nm: standard deviation of its centred data.
        published: whether the paper's numbers are of this molecule; they stand beside the others all the same.
    """

    title: str
    molecule: str
    scales: Mapping[str, CartesianScale]
    spread: float
    published: bool = False


def plan_cartesian(
    study: CartesianStudy, scale_name: str, data: Path | None, device: str, out: Path
) -> Experiment:
    """Return the table of a study at a scale on a dataset, which must hold enough samples."""
    scale = study.scales[scale_name]
    path = checked_samples(study.molecule, data, scale.samples, scale.evaluation.test_samples)
    start = _start(study, scale, path, device) if scale.start_steps else None
    rows = [] if start is None else [Planned(str(scale.samples), START, start)]
    for key, row in _METHODS.items():
        paper = CARTESIAN.get(key, {}) if study.published and scale_name == "paper" else {}
        cell = _cell(study, scale, key, path, device, start)
        rows.append(Planned(str(scale.samples), row.label, cell, paper))
    elsewhere = tuple(
        Row("100000", _METHODS[key].label, {}, numbers)
        for key, numbers in CARTESIAN.items()
        if not (study.published and scale_name == "paper")
    )
    return Experiment(
        study.title,
        f"{study.title}, scale {scale_name}",
        _COLUMNS,
        "samples",
        tuple(rows),
        _EXPLANATION,
        gain,
        (by_method(_COLUMNS, ("nll", "ess")), validation_curves(), ramachandran),
        elsewhere,
        longest_first=True,
    )


def _cell(
    study: CartesianStudy, scale: CartesianScale, key: str, path: Path, device: str, start: Cell | None
) -> Cell:
    row, name = _METHODS[key], f"{scale.samples}-{key}"
    config = _config(study, scale, row, path).model_copy(update={"device": device})
    if row.flows_of is not None:
        trained = _cell(study, scale, row.flows_of, path, device, start)
        return Cell(
            name, f"{scale.samples} {row.label}", config, scale.seeds, None, after=trained, trains=False
        )
    tuning = None
    if len(scale.rates) > 1:
        tuning = TuneConfig(
            learning_rates=scale.rates, data_weights=(1.0,), seeds=(1_001,), rungs=(0.1,), keep=0.01
        )
    return Cell(name, f"{scale.samples} {row.label}", config, scale.seeds, tuning, keep=True, after=start)


def _start(study: CartesianStudy, scale: CartesianScale, path: Path, device: str) -> Cell:
    """Return the training that all rows go on from."""
    longer = replace(scale, steps=scale.start_steps, rates=(scale.start_rate,))
    config = _config(study, longer, _METHODS["forward-kl"], path).model_copy(update={"device": device})
    return Cell(f"{scale.samples}-start", f"{scale.samples} {START}", config, scale.seeds, tuning=None)


def _config(study: CartesianStudy, scale: CartesianScale, row: _Row, path: Path) -> RunConfig:
    base = find_recipe("cartesian-paper")
    share = scale.path_steps if row.objective.get("data") == "path_gradient" else 1.0
    steps = max(1, round(share * scale.steps))
    objective: dict[str, Any] = {"dispersion": "none", "warm_up": round(0.25 * steps), **row.objective}
    if objective["dispersion"] != "none":
        objective["dispersion_weight"] = scale.dispersion_weight
    training = {
        "steps": steps,
        "batch": scale.batch,
        "learning_rate": scale.rates[len(scale.rates) // 2],
        "warm_up": round(0.05 * steps),
        "validate_every": max(1, steps // 20),
    }
    return base.model_copy(
        update={
            "target": MoleculeConfig(molecule=study.molecule, one_handed=True),
            "flow": scale.flow.model_copy(update={"correction": row.correction, "scale": study.spread}),
            "data": base.data.model_copy(
                update={"path": str(path), "samples": scale.samples, "validation_samples": 10_000}
            ),
            "objective": base.objective.model_validate(objective),
            "training": base.training.model_copy(update=training | dict(scale.overrides)),
            "evaluation": scale.evaluation,
        }
    )


def _judged(samples: int, test: int) -> EvaluationConfig:
    return EvaluationConfig(samples=samples, test_samples=test, clip=0.002, discard=True)


_SMOKE = CartesianScale(
    200,
    4,
    TARFLOW_PRESETS["tiny"],
    batch=20,
    seeds=(0, 1),
    dispersion_weight=0.3,
    evaluation=_judged(300, 100),
    rates=(1e-3,),
    path_steps=0.4,
    overrides={"log_every": 1, "checkpoint_every": 2, "ema": None},
    start_steps=6,
    start_rate=1e-3,
)
_LAPTOP = CartesianScale(
    100_000,
    4_000,
    TARFLOW_PRESETS["small"],
    batch=128,
    seeds=(10, 11),
    dispersion_weight=0.3,
    evaluation=_judged(100_000, 50_000),
    rates=(2e-3,),
    path_steps=0.37,
    overrides={"optimiser": "muon", "log_every": 50, "checkpoint_every": 500, "ema": 0.995},
    start_steps=20_000,
    start_rate=5e-3,
)
"""Muon comes much further than AdamW in so few steps. Most of them are the same for all rows: what the objectives do
with a flow that is nearly there is what a table can resolve here."""
_LAPTOP_DIPEPTIDE = replace(
    _LAPTOP,
    steps=800,
    path_steps=0.3,
    start_steps=4_000,
    overrides={
        **_LAPTOP.overrides,
        "validate_every": 200,
    },  # a look at 10,000 samples takes as long as 22 steps
)
_PAPER = CartesianScale(
    100_000,
    400_000,
    TARFLOW_PRESETS["paper"],
    batch=1024,
    seeds=(10, 11, 12, 13),
    dispersion_weight=0.3,
    evaluation=_judged(1_000_000, 1_000_000),
    rates=(3.2e-5, 1e-4, 3.2e-4),
    path_steps=0.25,
    overrides={"checkpoint_every": 5_000},
)

CARTESIAN_STUDIES: dict[str, CartesianStudy] = {
    "aldp-cartesian": CartesianStudy(
        "Alanine dipeptide in Cartesian coordinates",
        "alanine-dipeptide-cartesian",
        {"smoke": _SMOKE, "laptop": _LAPTOP_DIPEPTIDE, "paper": _PAPER},
        spread=0.166,
        published=True,
    ),
    "acetamide-cartesian": CartesianStudy(
        "Acetamide in Cartesian coordinates",
        "ACE-NH2",
        {"smoke": _SMOKE, "laptop": _LAPTOP},
        spread=0.0946,
    ),
}
"""Experiments with TarFlow by name."""
