"""One question from the molecule to the report, stage by stage. What is finished is not done again."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from boltzkit.data import About, Dataset, DatasetWriter, Labeller, assign
from boltzkit.data.lock import sole_writer
from boltzkit.ensemble import Ensemble, draw_into, forget_chunks
from boltzkit.method import Model, RunConfig, fit, seconds_per_step
from boltzkit.molecule import SMILES, Molecule
from boltzkit.run.folder import AnswerFolder
from boltzkit.run.plan import (
    Plan,
    describe,
    fitted,
    make_plan,
    planned_training,
    stage_cost,
    training_share,
)
from boltzkit.run.request import Request
from boltzkit.simulate import Quality, assess, simulate_batched
from boltzkit.storage import read_json
from boltzkit.training import RunFolder, Watch

__all__ = ["Found", "find"]

Tell = Callable[[str], None]

_LEAST_PER_MINUTE, _SAMPLES_PER_MINUTE = 10_000, 20_000
_FEWEST_SAMPLES = 100_000
_TOLD = 50_000
"""Samples after which a line says how many they are worth."""
_FAIR = 1_000
"""Effective frames from which weighted ones teach better than importance samples of a flow that learned them all."""


@dataclass(frozen=True, eq=False)
class Found:
    """Everything that an answer rests on.

    Attributes:
        request: the question.
        plan: how it was gone about.
        molecule: whose ensemble it is.
        model: the trained flow.
        ensemble: its weighted samples.
        data: the samples it learned from, None if it learned from the energy alone.
        quality: what these are worth.
        evaluations: energy evaluations of the training.
        overlap: of a flow's importance samples with the target, where it learned biased data.
        remarks: what was noticed on the way.
    """

    request: Request
    plan: Plan
    molecule: Molecule
    model: Model
    ensemble: Ensemble
    data: Dataset | None
    quality: Quality | None
    evaluations: int
    overlap: Mapping[str, Any] | None
    remarks: tuple[str, ...]


def find(request: Request, folder: AnswerFolder, tell: Tell, watch: Watch | None = None) -> Found:
    """Go from a question to its weighted ensemble, or go on with it.

    Args:
        request: the question.
        folder: where everything is kept.
        tell: told what happens.
        watch: follows the training.
    """
    molecule = folder.open(request)
    with sole_writer(folder.path, patience=0):
        return _find(request, folder, molecule, tell, watch)


def _find(
    request: Request, folder: AnswerFolder, molecule: Molecule, tell: Tell, watch: Watch | None
) -> Found:
    started = time.monotonic()
    plan = folder.stored("plan.json", Plan)
    if plan is None:
        plan = make_plan(request, molecule, _bias(request))
        folder.keep("plan.json", plan)
    tell(
        f"{molecule.name}: {molecule.n_atoms} atoms, {request.temperature:g} K. {describe(plan, request, molecule)}"
    )
    data = _data(request, plan, molecule, folder, tell)
    # Biased samples are worth what their importance weights say, not what their correlation does.
    teaching = data is not None and plan.method != "biased" and len(data.split("train")) > 0
    quality = assess(data.split("train"), molecule) if data is not None and teaching else None
    config = folder.stored("training.json", RunConfig)
    if config is None:
        left = 60 * request.minutes - (time.monotonic() - started)
        config = _training(request, plan, data, molecule, folder, left, tell)
        folder.keep("training.json", config)
    model, remarks = fit(config, folder.training, watch, tell)
    ensemble = _ensemble(request, model, folder, tell)
    return Found(
        request,
        plan,
        molecule,
        model,
        ensemble,
        data,
        quality,
        _evaluations(folder),
        read_json(path) if (path := folder.training / "overlap.json").is_file() else None,
        (*molecule.remarks, *remarks),
    )


def _evaluations(folder: AnswerFolder) -> int:
    lines = RunFolder(folder.training).metrics()
    return int(lines[-1]["evaluations"]) if lines else 0


def _data(
    request: Request, plan: Plan, molecule: Molecule, folder: AnswerFolder, tell: Tell
) -> Dataset | None:
    """Return the samples to learn from: drawn, labelled, or those that are there."""
    if plan.simulation is not None:
        simulate_batched(molecule, plan.simulation, folder.data, tell)
        return Dataset.open(folder.data, molecule)
    if not request.data:
        return None
    if len(request.data) == 1 and Path(request.data[0]).is_dir():
        return Dataset.open(request.data[0], molecule)
    return _labelled(request, plan, molecule, folder, tell)


def _bias(request: Request) -> str | None:
    """Return how a given dataset departs from the Boltzmann distribution at the temperature asked for."""
    if len(request.data) != 1 or not Path(request.data[0]).is_dir():
        return None
    about = Dataset.open(request.data[0]).about
    if about.bias is None and about.temperature != request.temperature:
        return f"sampled at {about.temperature:g} K"
    return about.bias


def _labelled(request: Request, plan: Plan, molecule: Molecule, folder: AnswerFolder, tell: Tell) -> Dataset:
    """Label trajectories; of several, the last one is kept for validation, unless they are biased."""
    source = {"protocol": "trajectories labelled by boltzkit run"}
    biased = plan.method == "biased"
    bias = "trajectories that do not follow the Boltzmann distribution, as was said" if biased else None
    about = About.of(molecule, request.temperature, bias=bias, source=source)
    with DatasetWriter(folder.data, about) as writer:
        labeller = Labeller(molecule, writer)
        for number, path in enumerate(request.data):
            last = not biased and len(request.data) > 1 and number == len(request.data) - 1
            result = labeller.label(path, "validation" if last else "train", ignore_energies=True)
            tell(f"{path}: {result.n_new + result.n_before:,} of {result.n_frames:,} frames")
    return Dataset.open(folder.data, molecule)


def _training(
    request: Request,
    plan: Plan,
    data: Dataset | None,
    molecule: Molecule,
    folder: AnswerFolder,
    seconds: float,
    tell: Tell,
) -> RunConfig:
    """Return the training with as many steps as fit into what is left of the time, and say what it will cost."""
    # A file may change or vanish, and SMILES need RDKit: the flow is trained for the molecule that was kept.
    kept = request.molecule.startswith(SMILES) or Path(request.molecule).exists()
    name = str(folder.molecule.resolve()) if kept else request.molecule
    place = None if data is None else str(data.folder)
    weighted = False
    if plan.method == "biased" and data is not None:
        assignment = assign(data.split("train"), request.temperature)
        weighted = assignment.data_term and assignment.weights.effective >= _FAIR
        tell(assignment.reason)
        if assignment.data_term and not weighted:
            tell(
                f"They are worth fewer than {_FAIR:,} independent frames: a proposal learns them first, and its "
                "importance samples are the data term."
            )
    config = planned_training(request, plan.method, place, name, molecule.n_atoms, weighted=weighted)
    share = training_share(plan.method)
    budget = max(60 * request.minutes * share, seconds - (1 - share) * 60 * request.minutes)
    step = seconds_per_step(config)
    budget = min(budget, 0.9 * 60 * request.minutes)
    config = fitted(config, budget, step)
    stages = "" if config.importance is None else "two stages of "
    told = f"{stages}{config.training.steps:,} steps of {1000 * step:.0f} ms"
    needed = stage_cost(config) * config.training.steps * step
    more = ": more than asked for, since fewer steps teach nothing" if needed > 1.5 * budget else ""
    tell(f"training: {told}, about {needed / 60:.1f} minutes{more}")
    return config


def _ensemble(request: Request, model: Model, folder: AnswerFolder, tell: Tell) -> Ensemble:
    if (folder.ensemble / "summary.json").is_file():
        forget_chunks(folder.ensemble)
        return Ensemble.load(folder.ensemble)
    limit = max(_FEWEST_SAMPLES, int(_SAMPLES_PER_MINUTE * request.minutes))
    tell(f"drawing up to {limit:,} samples")

    def watch(n: int, effective: float) -> None:
        if n % _TOLD == 0:
            tell(f"{n:,} samples, worth {effective:,.0f} ({100 * effective / n:.1f} %)")

    draw_into(
        folder.ensemble,
        model.flow,
        model.target,
        request.seed,
        effective=request.effective,
        least=int(_LEAST_PER_MINUTE * request.minutes),
        limit=limit,
        subject=model.subject,
        watch=watch,
    )
    # From its files, as a run that goes on here would: they hold the molecule with fewer digits.
    return Ensemble.load(folder.ensemble)
