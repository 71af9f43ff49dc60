"""Studies on molecules: methods times data sizes, as cells with their tuning."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from boltzkit.data import SPLITS, Dataset
from boltzkit.errors import UserError
from boltzkit.flow import SplineFlowConfig
from boltzkit.method import (
    EvaluationConfig,
    MoleculeConfig,
    ObjectiveConfig,
    RunConfig,
    TuneConfig,
    find_recipe,
)
from boltzkit.method.system import molecule_of
from boltzkit.reproduce.cell import Cell
from boltzkit.reproduce.experiment import Drawing, Experiment, Found, Planned
from boltzkit.reproduce.published import Numbers
from boltzkit.reproduce.table import Column, Row

__all__ = [
    "COLUMNS",
    "EXPLANATION",
    "START",
    "UNREAD",
    "Length",
    "Method",
    "Scale",
    "Study",
    "checked_dataset",
    "checked_samples",
    "plan",
    "run_of",
    "tuning_of",
]

COLUMNS = (
    Column("nll", "NLL ↓", 3, path="paper_nll"),
    Column("ess", "ESS / % ↑", 2, higher_is_better=True, scale=100, path="reverse.ess_clipped"),
    Column("ess_raw", "raw ESS / % ↑", 2, higher_is_better=True, scale=100, path="reverse.ess.value"),
    Column("forward_ess", "forward ESS / % ↑", 2, higher_is_better=True, scale=100, path="forward.fraction"),
    Column("ram", "RAM KL / 10⁻³ ↓", 2, scale=1000, path="ramachandran.raw.value"),
    Column("ram_rw", "RAM KL w. RW / 10⁻³ ↓", 2, scale=1000, path="ramachandran.reweighted.value"),
    Column("tica", "TICA KL / 10⁻³ ↓", 2, scale=1000, path="tica.raw.value"),
    Column("tica_rw", "TICA KL w. RW / 10⁻³ ↓", 2, scale=1000, path="tica.reweighted.value"),
    Column("energy_w2", "E-W₂ / 10⁻³ ↓", 2, scale=1000, path="energy_w2.reweighted.value"),
)
"""The paper's metrics in its units, and two ESS it does not have."""

EXPLANATION = (
    "Mean ± standard deviation over independent experiments (own draw of training samples and own start each), the "
    "published values in brackets where the scale is the paper's. Bold: not significantly different from the best of "
    "its block (two-sided Welch's t-test, α = 0.05). All numbers are of the final weights on test data that neither "
    "training nor tuning has seen; learning rate and λ_data were chosen by the validation NLL of other seeds. NLL in "
    "the published convention. ESS: reverse, the largest 0.01 % of the weights clipped; raw ESS without clipping; "
    "forward ESS on the test data. RAM KL: divergence of the (φ, ψ) histograms, w. RW after reweighting; with few "
    "samples chance alone gives a floor, which the stored evaluations tell. E-W₂: of the reweighted energies, in k_BT."
)

_FROM_START = " All rows of a seed go on from the same flow, trained by the forward KL; nothing is tuned."
START = "fwd KL, common start"
"""The row whose flows others go on from."""

UNREAD = Path("dataset")
"""Stands for a dataset where an experiment is planned to be read about and not to be run: nothing is opened."""


@dataclass(frozen=True)
class Method:
    """One row: how it is called, what it minimises and how. A λ_data that is given here is not tuned."""

    label: str
    objective: Mapping[str, Any] = field(default_factory=dict)
    training: Mapping[str, Any] = field(default_factory=dict)

    @property
    def regularised(self) -> bool:
        """Whether there are two terms, and so a λ_data."""
        return "dispersion" in self.objective and self.objective.get("data") != "none"


@dataclass(frozen=True)
class Length:
    """How long one data size trains, and the grid of its tuning.

    Args:
        steps: gradient steps.
        rungs: shares of the steps, as `TuneConfig.rungs`; none takes rate and weight as they are.
        rates: learning rates to try; the middle one is taken where nothing is tuned.
        plain_rates: those of methods without λ_data, whose grid has room for more.
    """

    steps: int
    rungs: tuple[float, ...]
    rates: tuple[float, ...] = (3.2e-4, 1e-3, 3.2e-3)
    plain_rates: tuple[float, ...] = (1e-4, 3.2e-4, 1e-3, 3.2e-3)


@dataclass(frozen=True)
class Scale:
    """How much of a study to run, and with what flow.

    Args:
        sizes: training samples and how long each trains.
        flow: the architecture.
        batch: samples per step.
        seeds: one independent experiment each.
        weights: λ_data to try.
        evaluation: model and test samples.
        validation: samples for curves and tuning.
        overrides: further settings of training.
        start_steps: gradient steps of the forward KL that all rows of a seed and size begin with; none are tuned then.
        start_rate: learning rate of these.
    """

    sizes: Mapping[int, Length]
    flow: SplineFlowConfig
    batch: int
    seeds: tuple[int, ...]
    weights: tuple[float, ...]
    evaluation: EvaluationConfig
    validation: int
    overrides: Mapping[str, Any] = field(default_factory=dict)
    start_steps: int = 0
    start_rate: float = 0.0


@dataclass(frozen=True)
class Study:
    """One experiment on one molecule.

    Args:
        title: of its page.
        molecule: name of the molecule.
        methods: rows of each block.
        scales: by name.
        summary: from finished rows to a sentence.
        drawings: figures.
        published: the paper's numbers by size and method, as far as it has them.
        keep: keep the flow of each row's first seed.
        tuned: choose learning rate and λ_data by validation.
    """

    title: str
    molecule: str
    methods: Mapping[str, Method]
    scales: Mapping[str, Scale]
    summary: Callable[[Sequence[Found]], str]
    drawings: tuple[Drawing, ...]
    published: Mapping[int, Mapping[str, Numbers]] = field(default_factory=dict)
    keep: bool = False
    tuned: bool = True


def plan(study: Study, scale_name: str, data: Path | None, device: str) -> Experiment:
    """Return the experiment of a study at a scale on a dataset, which must hold enough samples."""
    scale = study.scales[scale_name]
    path = checked_dataset(study.molecule, scale, data)
    rows: list[Planned] = []
    for size in scale.sizes:
        start = _start(study, scale, size, path, device) if scale.start_steps else None
        if start is not None:
            rows.append(Planned(str(size), START, start))
        rows += [_planned(study, scale, size, key, path, device, start) for key in study.methods]
    elsewhere = tuple(
        Row(str(size), study.methods[key].label, {}, numbers)
        for size, by_method in study.published.items()
        for key, numbers in by_method.items()
        if size not in scale.sizes and key in study.methods
    )
    return Experiment(
        study.title,
        f"{study.title}, scale {scale_name}",
        COLUMNS,
        "samples",
        tuple(rows),
        EXPLANATION + (_FROM_START if scale.start_steps else ""),
        study.summary,
        study.drawings,
        elsewhere,
        longest_first=True,
    )


def _start(study: Study, scale: Scale, size: int, path: Path, device: str) -> Cell:
    """Return the training that all rows of a size go on from."""
    longer = replace(scale, sizes={size: Length(scale.start_steps, (), rates=(scale.start_rate,))})
    config = run_of(study.molecule, longer, size, Method(START), path).model_copy(update={"device": device})
    return Cell(f"{size}-start", f"{size} {START}", config, scale.seeds, tuning=None)


def _planned(
    study: Study, scale: Scale, size: int, key: str, path: Path, device: str, start: Cell | None
) -> Planned:
    method, length = study.methods[key], scale.sizes[size]
    config = run_of(study.molecule, scale, size, method, path).model_copy(update={"device": device})
    tuning = tuning_of(scale, length, method) if study.tuned and length.rungs else None
    cell = Cell(
        f"{size}-{key}", f"{size} {method.label}", config, scale.seeds, tuning, study.keep, after=start
    )
    return Planned(str(size), method.label, cell, study.published.get(size, {}).get(key, {}))


def run_of(molecule: str, scale: Scale, size: int, method: Method, path: Path) -> RunConfig:
    """Return the training of one method on so many unbiased samples, before its tuning."""
    base, length = find_recipe("unbiased-paper"), scale.sizes[size]
    # The paper warms λ_LD up over 8 % of its steps.
    objective: dict[str, Any] = {"warm_up": round(0.08 * length.steps)} | dict(method.objective)
    if method.regularised and "data_weight" not in objective:
        objective["data_weight"] = scale.weights[len(scale.weights) // 2]
    training = {
        "steps": length.steps,
        "batch": scale.batch,
        "learning_rate": length.rates[len(length.rates) // 2],
        "validate_every": max(1, length.steps // 20),
    }
    return base.model_copy(
        update={
            "target": MoleculeConfig(molecule=molecule),
            "flow": scale.flow,
            "data": base.data.model_copy(
                update={"path": str(path), "samples": size, "validation_samples": scale.validation}
            ),
            "objective": ObjectiveConfig(**objective),
            "training": base.training.model_copy(
                update=training | dict(scale.overrides) | dict(method.training)
            ),
            "evaluation": scale.evaluation,
        }
    )


def tuning_of(scale: Scale, length: Length, method: Method) -> TuneConfig:
    """Return the grid of one method."""
    tunes_weight = method.regularised and "data_weight" not in method.objective
    weights = scale.weights if tunes_weight else (method.objective.get("data_weight", 1.0),)
    return TuneConfig(
        learning_rates=length.rates if method.regularised else length.plain_rates,
        data_weights=weights,
        seeds=(1_001,),
        rungs=length.rungs,
        keep=0.01,  # two settings reach the next rung
    )


def checked_dataset(molecule: str, scale: Scale, data: Path | None) -> Path:
    """Return the dataset's folder if it has what the scale needs."""
    return checked_samples(molecule, data, max(scale.sizes), scale.evaluation.test_samples)


def checked_samples(molecule: str, data: Path | None, most: int, test: int) -> Path:
    """Return the dataset's folder if it has so many training samples, and some for validation and test."""
    if data is UNREAD:
        return data
    if data is None or not (data / "manifest.json").is_file():
        folder = f"data/{molecule}" if data is None else str(data)
        command = f"boltzkit simulate {molecule} --out {folder} --samples"
        found = "Give a dataset with --data" if data is None else f"There is no dataset in {data}"
        raise UserError(
            f"{found}: make one with '{command} {most * 5 // 4} --set validation=0.2' and "
            f"'{command} {test} --split test --seed 1'."
        )
    dataset = Dataset.open(data, molecule_of(MoleculeConfig(molecule=molecule)))
    for split, least in zip(SPLITS, (most, 1, 2), strict=True):
        n = len(dataset.split(split))
        if n < least:
            raise UserError(
                f"{data} has {n:,} {split} samples, and {least:,} are needed: add some with boltzkit simulate."
            )
    return data
