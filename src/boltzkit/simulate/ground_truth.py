"""A dataset of equilibrium samples from the batched sampler, resumable by segments."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch
from pydantic import Field, PositiveFloat, PositiveInt
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from boltzkit.config import Config
from boltzkit.data import About, DatasetWriter
from boltzkit.energy import ForceField
from boltzkit.energy.constants import BOLTZMANN
from boltzkit.errors import Interrupted, UserError
from boltzkit.interrupt import stop_requested
from boltzkit.molecule import Molecule
from boltzkit.simulate.internal_space import InternalSpace
from boltzkit.simulate.space import CartesianSpace, Space
from boltzkit.simulate.tempering import Tempering, TemperingConfig
from boltzkit.storage import write_bytes

__all__ = ["BatchedSimulation", "simulate_batched"]

Tell = Callable[[str], None]


class BatchedSimulation(Config):
    """What to draw with the batched sampler."""

    samples: PositiveInt = 1_000_000
    """Samples to store, at least; whole segments are stored."""
    temperature: PositiveFloat = 300.0
    """Kelvin."""
    equilibration: PositiveInt = 1000
    """Sweeps before the first sample, in which step sizes are adapted."""
    every: PositiveInt = 1
    """Sweeps from one stored frame to the next."""
    segment: PositiveInt = 100
    """Frames of each walker that are stored at a time."""
    split: Literal["train", "test"] = "train"
    """What the samples may be used for; independent runs with other seeds make other splits."""
    validation: float = Field(0.0, ge=0, lt=1)
    """Share of the walkers whose trajectories go to the validation split instead."""
    tempering: TemperingConfig = TemperingConfig()
    """How walkers move."""


@dataclass
class _Progress:
    """Where a run stands: everything that the next segment depends on."""

    run: Tempering
    segments: int
    first_trajectory: int


def simulate_batched(molecule: Molecule, config: BatchedSimulation, out: Path, tell: Tell = print) -> None:
    """Draw samples into a dataset folder; goes on where it stopped.

    Walkers move in Cartesian coordinates, or in internal ones where bonds are constrained. Every walker is one
    trajectory. Energies are computed in double precision from the positions as they are stored.
    """
    temperature = config.temperature
    about = About.of(molecule, temperature, source={"protocol": "batched sampler"})
    energy = molecule.energy(temperature)
    space = (
        InternalSpace(molecule.internal_coordinates(), energy)
        if len(molecule.constraints)
        else CartesianSpace(molecule, energy)
    )
    exact = ForceField(molecule.system, temperature, precision=torch.float64, regularised=False)
    per_segment = config.segment * config.tempering.walkers
    total = -(-config.samples // per_segment)
    state = out / f"sampler-{config.split}-{config.tempering.seed}.safetensors"
    with DatasetWriter(out, about) as writer, stop_requested() as stopping:
        progress = _resume(state, config, space) or _start(molecule, config, space, writer, tell)
        while progress.segments < total:
            if stopping():
                raise Interrupted(
                    f"Stopped after {writer.n_committed:,} samples; the same command goes on with the rest."
                )
            _segment(progress, config, space, exact, writer)
            _save(state, config, progress)
            rates = ", ".join(f"{kind} {float(rate[0]):.0%}" for kind, rate in progress.run.accepted.items())
            tell(
                f"segment {progress.segments} of {total}: {writer.n_committed:,} samples, "
                f"{energy.evaluations:,} energy evaluations here, accepted: {rates}"
            )


def _start(
    molecule: Molecule, config: BatchedSimulation, space: Space, writer: DatasetWriter, tell: Tell
) -> _Progress:
    tell(f"equilibrating {config.tempering.walkers} walkers for {config.equilibration} sweeps")
    run = Tempering.start(space, config.tempering, molecule.positions.float()[None])
    for _ in run.run(config.equilibration, adapt=True):
        pass
    return _Progress(run, 0, writer.next_trajectory)


def _segment(
    progress: _Progress, config: BatchedSimulation, space: Space, exact: ForceField, writer: DatasetWriter
) -> None:
    frames = []
    for sweep in progress.run.run(config.segment * config.every):
        if sweep.number % config.every == 0:
            x = space.positions(sweep.y)
            frames.append(x - x.mean(1, keepdim=True))
    x = torch.stack(frames, dim=1)
    walkers = len(x)
    kept = walkers - round(config.validation * walkers)
    for split, members in ((config.split, slice(0, kept)), ("validation", slice(kept, walkers))):
        key = f"{config.split} seed {config.tempering.seed} segment {progress.segments} {split}"
        if len(x[members]) and key not in writer:
            first = progress.first_trajectory + (members.start or 0)
            columns = _columns(x[members], first, progress.segments * config.segment, exact)
            writer.append(key, split, columns)  # type: ignore[arg-type]
    progress.segments += 1


def _columns(x: Tensor, first: int, frame: int, exact: ForceField) -> dict[str, Tensor]:
    """Return the columns of ``(walkers, frames, atoms, 3)`` positions, trajectory by trajectory."""
    walkers, frames = x.shape[:2]
    flat = x.reshape(-1, *x.shape[2:])
    return {
        "positions": flat,
        "energy": exact(flat.double()) * (BOLTZMANN * exact.temperature),
        "trajectory": torch.arange(first, first + walkers).repeat_interleave(frames),
        "frame": torch.arange(frame, frame + frames).repeat(walkers),
    }


def _save(path: Path, config: BatchedSimulation, progress: _Progress) -> None:
    run = progress.run
    about = {
        "sweeps": run.sweeps,
        "segments": progress.segments,
        "first_trajectory": progress.first_trajectory,
        "config": _identity(config),
    }
    # One file, so that walkers and numbers always belong together.
    write_bytes(path, save({"y": run.walkers.y, "step": run.step}, {"state": json.dumps(about)}))


def _resume(path: Path, config: BatchedSimulation, space: Space) -> _Progress | None:
    if not path.exists():
        return None
    try:
        with safe_open(path, framework="pt") as file:
            about, y, step = (
                json.loads(file.metadata()["state"]),
                file.get_tensor("y"),
                file.get_tensor("step"),
            )
    except (SafetensorError, KeyError, TypeError, ValueError) as error:
        raise UserError(f"{path} is damaged: remove it to start the run again, in another folder.") from error
    if about["config"] != _identity(config):
        raise UserError(
            f"{path.parent} was begun with other settings of the sampler: use those, another seed, or another folder."
        )
    run = Tempering(space, config.tempering, space.evaluate(y), step, about["sweeps"])
    return _Progress(run, about["segments"], about["first_trajectory"])


def _identity(config: BatchedSimulation) -> object:
    """Return the settings that a run cannot change; more samples may be asked for later."""
    return json.loads(config.model_copy(update={"samples": 1}).model_dump_json())
