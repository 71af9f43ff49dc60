"""A trained flow with the target it was trained for."""

from pathlib import Path

import torch
from torch import Tensor

from boltzkit.energy import Target
from boltzkit.ensemble import Ensemble, Subject, draw
from boltzkit.errors import UserError
from boltzkit.flow import Flow, Samples
from boltzkit.method.config import RunConfig
from boltzkit.method.pretrained import find_run
from boltzkit.method.system import (
    MoleculeConfig,
    build_energy,
    build_flow_for,
    hash_of,
    molecule_of,
    same_configurations,
)
from boltzkit.notebook import as_rows
from boltzkit.randomness import generator
from boltzkit.storage import read_json
from boltzkit.training import TrainState, checkpoints, read_checkpoint, read_origin

__all__ = ["Model", "load"]


class Model:
    """A flow fixed as a density, with its configuration and target.

    >>> from boltzkit.method import Model, gmm
    >>> model = Model.untrained(gmm())
    >>> x, log_prob = model.sample(5)
    >>> bool(torch.allclose(model.log_prob(x), log_prob, atol=1e-4))
    True
    """

    def __init__(self, flow: Flow, config: RunConfig, step: int) -> None:
        self.flow = flow.eval().requires_grad_(False)
        self.config, self.step = config, step
        self.target: Target = build_energy(config.target)

    @property
    def subject(self) -> Subject | None:
        """The molecule and its temperature, if the flow is one's."""
        target = self.config.target
        return (
            Subject(molecule_of(target), target.temperature, target.one_handed)
            if isinstance(target, MoleculeConfig)
            else None
        )

    @classmethod
    def untrained(cls, config: RunConfig) -> "Model":
        """Return the flow as a run starts with it."""
        flow = build_flow((config,), batched=False)
        begin_with(flow, config)
        return cls(flow, config, step=0)

    @classmethod
    def of_state(cls, state: TrainState, config: RunConfig) -> "Model":
        """Return the model of a finished training: averaged weights where the run keeps them."""
        flow = build_flow((config,), batched=False)
        flow.load_state_dict(state.ema or state.flow.state_dict())
        return cls(flow, config, state.step)

    def __repr__(self) -> str:
        return f"Model({self._target_name!r}, {self._flow_words}, step {self.step:,})"

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        rows = {"flow": self._flow_words, "trained for": f"{self.step:,} steps"}
        if self.subject is not None:
            rows["temperature"] = f"{self.subject.temperature:g} K"
        return as_rows(self._target_name, rows)

    @property
    def _target_name(self) -> str:
        return self.target.name if self.subject is None else self.subject.molecule.name

    @property
    def _flow_words(self) -> str:
        parameters = sum(parameter.numel() for parameter in self.flow.parameters())
        return f"{self.config.flow.kind} of {parameters:,} parameters"

    def sample(self, n: int, seed: int = 0) -> Samples:
        """Draw n samples with log q, ``(n, dim)`` and ``(n,)``."""
        with torch.no_grad():
            return self.flow.sample(n, generator(seed, "samples of the model"))

    def ensemble(self, n: int, seed: int = 0) -> Ensemble:
        """Draw n samples and weigh them to the target; costs n energy evaluations."""
        return draw(self.flow, self.target, n, seed, subject=self.subject)

    def log_prob(self, x: Tensor) -> Tensor:
        """Return log q(x), ``(n, dim) -> (n,)``; −inf outside the support."""
        with torch.no_grad():
            return self.flow.log_prob(x.to(next(self.flow.parameters())))


def build_flow(configs: tuple[RunConfig, ...], *, batched: bool) -> Flow:
    """Build the flow of one run, or one batched flow with a replica for each run."""
    first = configs[0]
    flow = build_flow_for(first.target, first.flow, tuple(c.seed for c in configs), batched=batched)
    try:
        return flow.to(first.device)
    except (
        AssertionError,
        RuntimeError,
    ) as error:  # torch has one or the other for what it was not built for
        raise UserError(f"This machine has no device '{first.device}': set device=cpu.") from error


def begin_with(flow: Flow, config: RunConfig) -> None:
    """Give a flow the parameters that the run it shall begin with ended with; nothing where none is asked for."""
    if config.start is None:
        return
    first = load(config.start)
    # What is taken out of the weights is no part of the flow.
    ours, its = (one.model_dump(exclude={"correction"}) for one in (config.flow, first.config.flow))
    if ours != its or not same_configurations(config.target, first.config.target):
        raise UserError(
            f"start: {config.start} has another flow, molecule, force field or window of coordinates than this run: "
            "give both the same, or set start=null."
        )
    flow.load_state_dict(first.flow.state_dict())


def load(run_folder: str | Path) -> Model:
    """Load the newest state of a run: averaged weights where the run keeps them.

    Args:
        run_folder: of a training, of an answer, or the name of a flow that comes with the package.
    """
    folder = find_run(run_folder)
    config = RunConfig.parse(read_json(folder / "config.json"), source=str(folder / "config.json"))
    found = checkpoints(folder / "checkpoints")
    if not found:
        raise UserError(f"{folder} has no checkpoint yet: let its training run on.")
    if (folder / "provenance.json").is_file():
        read_origin(folder, hash_of(config.target))
    tensors, meta = read_checkpoint(found[-1])
    flow = build_flow((config,), batched=False)
    prefix = "ema." if config.training.ema else "modules.flow."
    try:
        flow.load_state_dict({k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)})
    except RuntimeError as error:  # torch lists every tensor, which helps nobody
        raise UserError(
            f"{found[-1]} is not a state of the flow that {folder / 'config.json'} describes: restore both files of "
            "one run."
        ) from error
    return Model(flow, config, meta["step"])


def models_of(state: TrainState, configs: tuple[RunConfig, ...]) -> list[Model]:
    """Split a finished batched training into one model per replica."""
    tensors = state.ema or state.flow.state_dict()
    models = []
    for replica, config in enumerate(configs):
        flow = build_flow((config,), batched=False)
        flow.load_state_dict({name: value[replica] for name, value in tensors.items()})
        models.append(Model(flow, config, state.step))
    return models
