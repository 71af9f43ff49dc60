"""One question from the molecule to the report, stage by stage. What is finished is not done again."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from boltzkit.data import About, Dataset, DatasetWriter, Labeller
from boltzkit.ensemble import Ensemble, draw_effective
from boltzkit.errors import UserError
from boltzkit.method import Model, RunConfig, fit, seconds_per_step
from boltzkit.molecule import Molecule
from boltzkit.run.folder import AnswerFolder
from boltzkit.run.plan import TRAINING_SHARE, Plan, describe, fitted, make_plan, planned_training
from boltzkit.run.request import Request
from boltzkit.simulate import Quality, assess, simulate_batched
from boltzkit.training import Watch

__all__ = ["Found", "find"]

Tell = Callable[[str], None]

_SAMPLES_PER_MINUTE = 20_000
_FEWEST_SAMPLES = 100_000


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
        remarks: what was noticed on the way.
    """

    request: Request
    plan: Plan
    molecule: Molecule
    model: Model
    ensemble: Ensemble
    data: Dataset | None
    quality: Quality | None
    remarks: tuple[str, ...]


def find(request: Request, folder: AnswerFolder, tell: Tell, watch: Watch | None = None) -> Found:
    """Go from a question to its weighted ensemble, or go on with it.

    Args:
        request: the question.
        folder: where everything is kept.
        tell: told what happens.
        watch: follows the training.
    """
    started = time.monotonic()
    molecule = folder.open(request)
    plan = folder.stored("plan.json", Plan)
    if plan is None:
        plan = make_plan(request, molecule)
        folder.keep("plan.json", plan)
    tell(f"{molecule.name}: {molecule.n_atoms} atoms, {request.temperature:g} K. {describe(plan)}")
    data = _data(request, plan, molecule, folder, tell)
    quality = None if data is None or not len(data.split("train")) else assess(data.split("train"), molecule)
    config = folder.stored("training.json", RunConfig)
    if config is None:
        left = 60 * request.minutes - (time.monotonic() - started)
        config = _training(request, plan, data, folder, left, tell)
        folder.keep("training.json", config)
    model, remarks = fit(config, folder.training, watch)
    ensemble = _ensemble(request, model, folder, tell)
    return Found(request, plan, molecule, model, ensemble, data, quality, (*molecule.remarks, *remarks))


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
    return _labelled(request, molecule, folder, tell)


def _labelled(request: Request, molecule: Molecule, folder: AnswerFolder, tell: Tell) -> Dataset:
    """Label trajectories; of several, the last one is kept for validation."""
    missing = [path for path in request.data if not Path(path).is_file()]
    if missing:
        raise UserError(f"There is no file or dataset {missing[0]}.")
    source = {"protocol": "trajectories labelled by boltzkit run"}
    with DatasetWriter(folder.data, About.of(molecule, request.temperature, source=source)) as writer:
        labeller = Labeller(molecule, writer)
        for number, path in enumerate(request.data):
            last = len(request.data) > 1 and number == len(request.data) - 1
            result = labeller.label(path, "validation" if last else "train", ignore_energies=True)
            tell(f"{path}: {result.n_new + result.n_before:,} of {result.n_frames:,} frames")
    return Dataset.open(folder.data, molecule)


def _training(
    request: Request, plan: Plan, data: Dataset | None, folder: AnswerFolder, seconds: float, tell: Tell
) -> RunConfig:
    """Return the training with as many steps as fit into what is left of the time, and say what it will cost."""
    # A file may change or vanish: the flow is trained for the molecule that was kept.
    typed = Path(request.molecule).exists()
    molecule = str(folder.molecule.resolve()) if typed else request.molecule
    config = planned_training(request, plan.method, None if data is None else str(data.folder), molecule)
    share = TRAINING_SHARE if plan.method == "sampler" else TRAINING_SHARE + 0.2
    budget = max(60 * request.minutes * share, seconds - (1 - share) * 60 * request.minutes)
    step = seconds_per_step(config)
    config = fitted(config, min(budget, 0.9 * 60 * request.minutes), step)
    minutes = config.training.steps * step / 60
    tell(f"training: {config.training.steps:,} steps of {1000 * step:.0f} ms, about {minutes:.1f} minutes")
    return config


def _ensemble(request: Request, model: Model, folder: AnswerFolder, tell: Tell) -> Ensemble:
    if (folder.ensemble / "summary.json").is_file():
        return Ensemble.load(folder.ensemble)
    limit = max(_FEWEST_SAMPLES, int(_SAMPLES_PER_MINUTE * request.minutes))
    tell(f"drawing up to {limit:,} samples")
    ensemble = draw_effective(
        model.flow, model.target, request.effective, request.seed, limit, subject=model.subject
    )
    ensemble.save(folder.ensemble)
    return ensemble
