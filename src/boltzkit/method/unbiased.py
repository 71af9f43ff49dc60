"""Training on unbiased data, or on none (reverse KL): one run, or several side by side as one batched model."""

from collections.abc import Callable, Sequence
from pathlib import Path

import torch

from boltzkit.config import Config
from boltzkit.data import Dataset, EpochBatches, LabelledData, StoredBatches, load_labelled, read_samples
from boltzkit.energy import Target
from boltzkit.errors import UserError
from boltzkit.flow import Flow, RealNVPConfig
from boltzkit.method.config import RunConfig
from boltzkit.method.model import Model, build_flow, load, models_of
from boltzkit.method.system import MoleculeConfig, build_energy, molecule_of
from boltzkit.method.validation import Validation
from boltzkit.objective import Batch, Objective, draw_batch
from boltzkit.randomness import generator
from boltzkit.training import LearnedCentre, Problem, RunFolder, Watch, train

__all__ = ["build_problem", "check_config", "fit", "fit_side_by_side", "training_data"]


def fit(config: RunConfig, out: Path, watch: Watch | None = None) -> tuple[Model, list[str]]:
    """Train one run in its folder, going on where it stopped; return the model and remarks on the resume."""
    check_config(config)
    # The problem first: bad data must not leave a half-made folder behind.
    problem = build_problem((config,), batched=False)
    folder = RunFolder(out)
    remarks = folder.open(config, config.seed, config.device)
    train(problem, config.training, folder, watch)
    return load(out), remarks


class SideBySide(Config):
    """What a folder of runs trained as one batched model holds."""

    runs: tuple[RunConfig, ...]
    """One configuration per replica."""


def fit_side_by_side(
    configs: Sequence[RunConfig], out: Path | None = None, watch: Watch | None = None
) -> list[Model]:
    """Train runs that differ only in seed and loss weights as one batched model; one model each comes back.

    Replicas share every kernel call, which is what makes many small flows affordable, and share nothing else.
    """
    for config in configs:
        check_config(config)
    if len({_common(config) for config in configs}) != 1:
        raise UserError("Runs trained side by side may differ in seed and loss weights only.")
    if not isinstance(configs[0].flow, RealNVPConfig):
        return _one_by_one(configs, out, watch)
    problem = build_problem(tuple(configs), batched=True)
    folder = None
    if out is not None:
        folder = RunFolder(out)
        folder.open(SideBySide(runs=tuple(configs)), configs[0].seed, configs[0].device)
    state = train(problem, configs[0].training, folder, watch)
    return models_of(state, tuple(configs))


def _one_by_one(configs: Sequence[RunConfig], out: Path | None, watch: Watch | None) -> list[Model]:
    """Train large flows one after the other: they have no replicas, and would gain nothing from them."""
    models = []
    for number, config in enumerate(configs):
        if out is not None:
            models.append(fit(config, out / f"{number}", watch)[0])
        else:
            state = train(build_problem((config,), batched=False), config.training, None, watch)
            models.append(Model.of_state(state, config))
    return models


def check_config(config: RunConfig) -> None:
    """Refuse combinations that cannot work, in one sentence each."""
    is_density = isinstance(config.flow, RealNVPConfig) and config.flow.statistics == "running"
    if config.objective.data == "path_gradient" and not is_density:
        raise UserError(
            "Path gradients need a RealNVP that is a density while training: set flow.statistics=running."
        )
    if config.objective.data == "none" and config.objective.dispersion == "none":
        raise UserError("There is nothing to minimise: set objective.data or objective.dispersion.")
    try:
        torch.empty(0, device=config.device)
    except (RuntimeError, AssertionError) as error:
        raise UserError(f"This machine has no device '{config.device}': set device=cpu.") from error


def build_problem(configs: tuple[RunConfig, ...], *, batched: bool) -> Problem:
    """Put target, data, flow and objective together."""
    first = configs[0]
    target = build_energy(first.target)
    flow = build_flow(configs, batched=batched)
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
    )
    seeds = tuple(c.seed for c in configs)
    if kind.data == "reverse_kl":
        batch: Callable[[int], Batch] = _ModelBatches(flow, target, first.training.batch, seeds)
    elif _is_large(first):
        assert isinstance(first.target, MoleculeConfig)
        train_split = _dataset(first).split("train")
        batch = StoredBatches(
            train_split, first.training.batch, seeds, first.target.temperature, device=first.device
        )
    else:
        data = _stack([training_data(c, target) for c in configs], batched)
        batch = EpochBatches(data.to(first.device, torch.float32), first.training.batch, seeds)
    return Problem(
        flow,
        objective,
        target,
        batch,
        centre=centre,
        validate=Validation.of(configs, target, batched=batched),
    )


def _common(config: RunConfig) -> str:
    objective = config.objective.model_copy(update={"data_weight": 0.0, "dispersion_weight": 0.0})
    return config.model_copy(update={"seed": 0, "objective": objective}).model_dump_json()


def training_data(config: RunConfig, target: Target) -> LabelledData:
    """Return a run's training samples with their labels: drawn from the target, or read from its file."""
    gradients = config.objective.data == "path_gradient"
    if isinstance(config.target, MoleculeConfig):
        split = _dataset(config).split("train")
        temperature, n = config.target.temperature, min(config.data.samples, len(split))
        return load_labelled(split, temperature, n, seed=config.seed, gradients=gradients)
    if config.data.path is None:
        x = target.sample(config.data.samples, generator(config.seed, "training data"))
        source = target.name
    else:
        x = read_samples(Path(config.data.path), target)[: config.data.samples]
        source = config.data.path
    return LabelledData.label(x, target, gradients=gradients, source=source)


_IN_MEMORY = 1_000_000
"""Samples up to which a dataset is held in memory."""


def _is_large(config: RunConfig) -> bool:
    """Whether training reads its dataset in windows: all of it, when more is asked for than memory should hold."""
    return isinstance(config.target, MoleculeConfig) and config.data.samples > _IN_MEMORY


def _dataset(config: RunConfig) -> Dataset:
    assert isinstance(config.target, MoleculeConfig)
    if config.data.path is None:
        raise UserError(
            f"{config.target.name} cannot be sampled exactly: make data with boltzkit simulate, and set data.path "
            "to its folder."
        )
    return Dataset.open(config.data.path, molecule_of(config.target))


def _stack(parts: list[LabelledData], batched: bool) -> LabelledData:
    if not batched:
        return parts[0]
    gradients = [part.gradient for part in parts if part.gradient is not None]
    return LabelledData(
        torch.stack([part.x for part in parts]),
        torch.stack([part.energy for part in parts]),
        torch.stack(gradients) if gradients else None,
    )


class _ModelBatches:
    """Fresh samples of the flow itself at every step, for the reverse KL."""

    def __init__(self, flow: Flow, target: Target, n: int, seeds: tuple[int, ...]) -> None:
        self.flow, self.target, self.n, self.seeds = flow, target, n, seeds

    def __call__(self, step: int) -> Batch:
        own = [generator(seed, "model batch", step) for seed in self.seeds]
        return draw_batch(self.flow.train(), self.target, self.n, own if self.flow.replicas else own[0])
