"""Training: one run in its folder, or several side by side as one batched model."""

from collections.abc import Sequence
from pathlib import Path

import torch

from boltzkit.config import Config
from boltzkit.ensemble import Ensemble
from boltzkit.errors import UserError
from boltzkit.flow import AugmentedFlow, RealNVPConfig, TarFlowConfig
from boltzkit.method.annealing.alarm import alarms
from boltzkit.method.annealing.harmonic import HarmonicStart, coordinates_of
from boltzkit.method.annealing.pretraining import harmonic_pretraining, tempered_pretraining
from boltzkit.method.augmented_batches import AugmentedBatches
from boltzkit.method.config import ObjectiveConfig, RunConfig
from boltzkit.method.dispersion_name import dispersion_label
from boltzkit.method.model import Model, begin_with, build_flow, load, models_of
from boltzkit.method.refinement import Refinement, Tell, proposal_run
from boltzkit.method.source import batch_source, reference_source
from boltzkit.method.system import MoleculeConfig, build_energy, hash_of, molecule_of
from boltzkit.method.validation import Validation
from boltzkit.objective import Objective
from boltzkit.randomness import generator
from boltzkit.ranks import by_first_rank, is_first_rank
from boltzkit.training import (
    LearnedCentre,
    Problem,
    RunFolder,
    TrainState,
    Watch,
    checkpoints,
    refuse_parts,
    train,
)

__all__ = ["build_problem", "check_config", "fit", "fit_side_by_side"]


def fit(
    config: RunConfig, out: str | Path, watch: Watch | None = None, tell: Tell | None = None
) -> tuple[Model, list[str]]:
    """Train one run in its folder, going on where it stopped; return the model and remarks on how that went.

    Args:
        config: the run.
        out: its folder.
        watch: called with each line of metrics.
        tell: called with sentences on what happens between the stages of a run.
    """
    check_config(config)
    if not is_first_rank():
        watch = tell = None
    with RunFolder(Path(out)) as folder:
        if config.importance is not None:
            return _fit_refined(config, folder, watch, tell)
        # The problem first: bad data must not leave a half-made folder behind.
        problem = build_problem((config,), batched=False)
        if not by_first_rank(lambda: bool(checkpoints(folder.checkpoints))):
            by_first_rank(
                lambda: begin_with(problem.flow, config)
            )  # others get its parameters before they train
        remarks = _open(folder, config, config)
        _pretrain(config, problem, folder, watch)
        state = train(problem, config.training, folder, watch)
        if config.annealing is not None:
            remarks = remarks + by_first_rank(lambda: alarms(folder.metrics()))
        return _trained(state, config, folder), remarks


def _open(folder: RunFolder, content: Config, config: RunConfig) -> list[str]:
    """Create a folder or join it: the first rank does, and all know what may make the run differ."""
    learned = hash_of(config.target)
    return by_first_rank(lambda: folder.open(content, config.seed, config.device, learned))


def _trained(state: TrainState, config: RunConfig, folder: RunFolder) -> Model:
    """Return the model as the folder has it; ranks that do not see the folder have the same."""
    return load(folder.path) if is_first_rank() else Model.of_state(state, config)


def _fit_refined(
    config: RunConfig, folder: RunFolder, watch: Watch | None, tell: Tell | None
) -> tuple[Model, list[str]]:
    """Learn biased data first, unless a proposal is given, then refine on its importance samples."""
    assert config.importance is not None
    reference_source(config)  # bad data must not leave a half-made folder behind
    if config.importance.proposal is not None:
        proposal, remarks = load(config.importance.proposal), _open(folder, config, config)
    else:
        first = proposal_run(config)
        check_config(first)
        build_problem((first,), batched=False)
        remarks = _open(folder, config, config)
        if tell is not None:
            kind = config.importance.dispersion
            beside = "" if kind == "none" else f" and {dispersion_label(kind)}"
            told = f"a proposal by the forward KL{beside} on the biased data, {first.training.steps:,} steps"
            tell(f"Stage 1: {told}")
        proposal = fit(first, folder.path / "proposal", watch)[0]
    refinement = Refinement.start(config, proposal, folder.path, tell)
    problem = build_problem((config,), batched=False, importance=refinement.samples)
    problem.flow.load_state_dict(proposal.flow.state_dict())
    problem.target.evaluations = refinement.samples.energy_evaluations
    if tell is not None:
        tell(f"Stage 2: refinement on the importance samples, {config.training.steps:,} steps")
    state = train(problem, config.training, folder, watch)
    return _trained(state, config, folder), remarks + refinement.overlap.remarks()


def _pretrain(config: RunConfig, problem: Problem, folder: RunFolder, watch: Watch | None) -> None:
    """Give the flow the start that is asked for, each part of it in a run folder below the run's."""
    annealing = config.annealing
    if annealing is None or not annealing.pretraining:
        return
    if by_first_rank(lambda: bool(checkpoints(folder.checkpoints))):
        return

    def learn(first: Problem, steps: int, name: str) -> None:
        with RunFolder(folder.path / name) as below:
            _open(below, config, config)
            train(first, config.training.model_copy(update={"steps": steps}), below, watch)

    batch, seed = config.training.batch, config.seed
    hot = tempered_pretraining(problem, annealing.hottest, batch, seed, annealing.dropped)
    if annealing.start == "reverse_kl":
        learn(hot, annealing.pretraining, "pretraining")
        return
    learn(
        harmonic_pretraining(problem, _harmonic(config, problem), batch, seed),
        annealing.pretraining,
        "pretraining",
    )
    if annealing.descent:
        learn(hot, annealing.descent, "descent")


def _harmonic(config: RunConfig, problem: Problem) -> HarmonicStart:
    """Return what a harmonic start draws from, with relaxed conformers where they are asked for."""
    annealing = config.annealing
    assert annealing is not None
    coordinates = coordinates_of(problem.flow)
    assert isinstance(config.target, MoleculeConfig), "only molecules have internal coordinates"
    positions = molecule_of(config.target).positions
    start = HarmonicStart.of(coordinates, problem.target, positions, annealing.warmth)
    if n := annealing.conformers():
        own = generator(config.seed, "conformers")
        how = (annealing.warmth, own, annealing.relaxation_steps, annealing.relaxed_torsions)
        start = start.relaxed(coordinates, problem.target, n, *how)
    return start


class SideBySide(Config):
    """What a folder of runs trained as one batched model holds."""

    runs: tuple[RunConfig, ...]
    """One configuration per replica."""


def fit_side_by_side(
    configs: Sequence[RunConfig], out: Path | None = None, watch: Watch | None = None
) -> list[Model]:
    """Train runs that differ only in seed, start and loss weights as one batched model; one model each comes back.

    Replicas share every kernel call, which is what makes many small flows affordable, and share nothing else.
    """
    for config in configs:
        check_config(config)
    if len({_common(config) for config in configs}) != 1:
        raise UserError("Runs trained side by side may differ in seed, start and loss weights only.")
    if not all(config.has_replicas for config in configs):
        return _one_by_one(configs, out, watch)
    problem = build_problem(tuple(configs), batched=True)
    if out is None:
        return models_of(train(problem, configs[0].training, None, watch), tuple(configs))
    with RunFolder(out) as folder:
        _open(folder, SideBySide(runs=tuple(configs)), configs[0])
        return models_of(train(problem, configs[0].training, folder, watch), tuple(configs))


def _one_by_one(configs: Sequence[RunConfig], out: Path | None, watch: Watch | None) -> list[Model]:
    """Train large flows one after the other: they have no replicas, and would gain nothing from them."""
    models = []
    for number, config in enumerate(configs):
        if out is not None:
            models.append(fit(config, out / f"{number}", watch)[0])
        elif config.importance is not None:
            raise UserError("A run on importance samples keeps them in its folder: say where it shall live.")
        else:
            problem = build_problem((config,), batched=False)
            begin_with(problem.flow, config)
            state = train(problem, config.training, None, watch)
            models.append(Model.of_state(state, config))
    return models


def check_config(config: RunConfig) -> None:
    """Refuse combinations that cannot work, in one sentence each."""
    is_density = not isinstance(config.flow, RealNVPConfig) or config.flow.statistics == "running"
    if config.objective.energy_gradients and not is_density:
        raise UserError(
            "Path gradients need a RealNVP that is a density while training: set flow.statistics=running."
        )
    if config.objective.data == "none" and config.objective.dispersion == "none":
        raise UserError("There is nothing to minimise: set objective.data or objective.dispersion.")
    _check_start(config)
    _check_buffers(config)
    _check_biased(config)
    try:
        torch.empty(0, device=config.device)
    except (RuntimeError, AssertionError) as error:
        raise UserError(f"This machine has no device '{config.device}': set device=cpu.") from error


def build_problem(
    configs: tuple[RunConfig, ...], *, batched: bool, importance: Ensemble | None = None
) -> Problem:
    """Put target, data, flow and objective together; importance samples, where a run learns from them."""
    first = configs[0]
    target = build_energy(first.target)
    flow = build_flow(configs, batched=batched)
    refuse_parts(flow, first.training.accumulate)
    kind = first.objective
    centre = None
    if kind.dispersion != "none" and kind.centre == "learned":
        centre = LearnedCentre(flow.replicas).to(first.device)
    data_weights = torch.tensor([c.objective.data_weight for c in configs], device=first.device)
    dispersion_weights = torch.tensor([c.objective.dispersion_weight for c in configs], device=first.device)
    objective = Objective(
        kind.data_term(),
        kind.dispersion_term(),
        data_weights if batched else data_weights[0],
        dispersion_weights if batched else dispersion_weights[0],
        warm_up_steps=kind.warm_up,
        reference_share=1.0 if first.reference is None else first.reference.share,
    )
    batches = batch_source(configs, flow, target, batched=batched, importance=importance)
    reference = reference_source(first)
    if isinstance(flow, AugmentedFlow):
        if not kind.own_samples:  # those of the flow itself stand where it puts them
            batches = AugmentedBatches(batches, flow.augmentation, first.seed, "augmentation")
        if reference is not None:
            reference = AugmentedBatches(reference, flow.augmentation, first.seed, "of the reference")
    return Problem(
        flow,
        objective,
        target,
        batches,
        reference=reference,
        centre=centre,
        validate=Validation.of(configs, target, batched=batched, importance=importance),
    )


def _common(config: RunConfig) -> str:
    objective = config.objective.model_copy(update={"data_weight": 0.0, "dispersion_weight": 0.0})
    return config.model_copy(update={"seed": 0, "start": None, "objective": objective}).model_dump_json()


def _check_start(config: RunConfig) -> None:
    if config.start is None:
        return
    if config.importance is not None:
        raise UserError("A run on importance samples begins with their proposal: set start=null.")
    if config.annealing is not None and config.annealing.pretraining:
        raise UserError(
            "A start takes the place of pre-training: set annealing.pretraining=0, or start=null."
        )


def _takes_weighted(objective: ObjectiveConfig) -> bool:
    """Whether an objective can learn from samples that stand for others by their weights."""
    return not (objective.own_samples or objective.energy_gradients)


def _check_biased(config: RunConfig) -> None:
    if config.data.weighted and config.objective.energy_gradients:
        raise UserError("Path gradients take samples as they are: set data.weighted=false.")
    if (config.data.weighted or config.data.biased) and not isinstance(config.target, MoleculeConfig):
        raise UserError("data.biased and data.weighted are for molecules: set both to false.")
    if config.importance is None and config.reference is None:
        return
    if not isinstance(config.target, MoleculeConfig):
        raise UserError("importance and reference are for molecules: set target.molecule, or both to null.")
    if config.learns_from_buffers:
        raise UserError("A run learns from buffers or from biased data: set annealing and fab to null.")
    if config.importance is not None and not _takes_weighted(config.objective):
        raise UserError(
            f"Importance samples are learned by the forward KL, not {config.objective.data}: set objective.data."
        )
    if config.reference is not None and config.objective.dispersion == "none":
        raise UserError("A reference is for the dispersion: set objective.dispersion, or reference=null.")


def _check_buffers(config: RunConfig) -> None:
    if not config.learns_from_buffers:
        return
    if config.annealing is not None and config.fab is not None:
        raise UserError("A run learns from one kind of buffer: set annealing or fab, and the other to null.")
    start = config.annealing
    if start is not None and start.descent and not (start.start == "harmonic" and start.pretraining):
        raise UserError(
            "annealing.descent follows a harmonic start: set annealing.start=harmonic and annealing.pretraining, or "
            "annealing.descent=0."
        )
    if not _takes_weighted(config.objective):
        raise UserError(
            f"Buffers are learned by the forward KL, not {config.objective.data}: set objective.data."
        )
    if isinstance(config.flow, TarFlowConfig):
        raise UserError("Learning without data is for flows on internal coordinates: set flow.kind=spline.")
    if isinstance(config.flow, RealNVPConfig) and config.flow.statistics != "running":
        raise UserError("Weights of buffers need a flow that is a density: set flow.statistics=running.")
