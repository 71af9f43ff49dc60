"""From a simulation that goes on segment by segment to datasets: one loop for all protocols."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from boltzkit.data import About, Dataset, DatasetWriter, Split, assign
from boltzkit.data.energies import PotentialEnergy
from boltzkit.errors import Interrupted
from boltzkit.interrupt import stop_requested
from boltzkit.molecule import Molecule
from boltzkit.simulate.protocol import Protocol
from boltzkit.simulate.state_file import Stand, claimed, read_stand, write_stand

__all__ = ["Check", "Recorded", "Run", "Tell", "as_stored", "record"]

Tell = Callable[[str], None]
Check = Callable[[], None]
"""Raises `Interrupted` when a stop was asked for; a run calls it where a segment takes long."""


class Recorded(NamedTuple):
    """What one segment adds to a dataset."""

    x: Tensor
    """Positions, ``(trajectories, frames, atoms, 3)`` nm."""
    trajectory: int
    """Number of the first of these trajectories, counted from the run's first."""
    frame: int
    """Number of the first frame."""
    bias: Tensor | None = None
    """What the simulation adds to the potential at the positions `as_stored`, ``(trajectories, frames)`` kJ/mol, where
    it does."""


class Run(ABC):
    """A simulation cut into segments, each a function of the state before it and of its own number.

    Attributes:
        trajectories: trajectories in all; those with the last numbers are for validation.
        segments: segments in all.
        folders: where samples at each temperature go, below the dataset folder; the target's own go to ``""``.
        biased: whether every frame has a bias energy.
    """

    trajectories: int
    segments: int
    folders: Mapping[float, str]
    biased: bool = False

    @property
    def evaluations(self) -> int | None:
        """Energies computed so far, also those before a stop; None where nobody counts them."""
        return None

    @property
    def source(self) -> Mapping[str, Any]:
        """What the first shard of each trajectory tells of the run, beside its settings."""
        return {}

    @abstractmethod
    def start(self, tell: Tell, check: Check) -> None:
        """Take the state before the first segment; what takes long checks now and then whether to stop."""

    @abstractmethod
    def advance(self, segment: int, check: Check) -> Mapping[float, Recorded]:
        """Run one segment and return what is to be stored, by temperature; nothing while equilibrating."""

    @abstractmethod
    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Return tensors and numbers that `restore` takes."""

    @abstractmethod
    def restore(self, tensors: dict[str, Tensor], numbers: dict[str, Any]) -> None:
        """Take the state of a stopped run."""

    @abstractmethod
    def report(self) -> str:
        """Return what a person watches, after a segment."""


def record(molecule: Molecule, config: Protocol, run: Run, out: Path, tell: Tell) -> None:
    """Run all segments that are missing and commit each as shards, trajectories for validation apart.

    Energies are computed in double precision from the positions as they are stored. After a kill at any moment the
    same call goes on with the same results. At the end of a biased run it is told what the frames are good for.
    """
    energy = PotentialEnergy(molecule)
    path = out / f"sampler-{config.split}-{config.run_seed}.safetensors"
    with ExitStack() as stack:
        writers = {t: stack.enter_context(_writer(molecule, config, run, out, t)) for t in run.folders}
        stopping = stack.enter_context(stop_requested())

        def check() -> None:
            if stopping():
                stored = sum(writer.n_committed for writer in writers.values())
                raise Interrupted(
                    f"Stopped after {stored:,} samples; the same command goes on with the rest."
                )

        stand = _resume(path, config, run) or _begin(path, config, run, writers, tell, check)
        while stand.segments < run.segments:
            check()
            for temperature, recorded in run.advance(stand.segments, check).items():
                _store(writers[temperature], config, run, stand, recorded, energy)
            stand.segments += 1
            stand.tensors, stand.numbers = run.state()
            write_stand(path, stand)
            stored = sum(writer.n_committed for writer in writers.values())
            tell(f"segment {stand.segments} of {run.segments}: {stored:,} samples, {run.report()}")
    if run.biased:
        tell(f"good for: {assign(Dataset.open(out, molecule).split(config.split)).reason}")


def as_stored(x: Tensor) -> Tensor:
    """Return positions as a dataset keeps them: centred, in single precision."""
    # Centred in the precision of the simulation: far from the origin, single precision has no decimals left.
    return (x - x.mean(-2, keepdim=True)).float()


def _writer(molecule: Molecule, config: Protocol, run: Run, out: Path, temperature: float) -> DatasetWriter:
    source: dict[str, Any] = {"protocol": config.title}
    if config.frame_interval is not None:
        source["frame_interval"] = config.frame_interval
    optional = ("bias",) if run.biased else ()
    about = About.of(molecule, temperature, bias=config.bias, optional=optional, source=source)
    return DatasetWriter(out / run.folders[temperature], about)


def _begin(
    path: Path,
    config: Protocol,
    run: Run,
    writers: Mapping[float, DatasetWriter],
    tell: Tell,
    check: Check,
) -> Stand:
    first = max(claimed(path), *(writer.next_trajectory for writer in writers.values()))
    run.start(tell, check)
    stand = Stand(0, first, run.trajectories, config.identity(), *run.state())
    write_stand(path, stand)
    return stand


def _resume(path: Path, config: Protocol, run: Run) -> Stand | None:
    stand = read_stand(path, config.identity())
    if stand is not None:
        run.restore(stand.tensors, stand.numbers)
    return stand


def _store(
    writer: DatasetWriter,
    config: Protocol,
    run: Run,
    stand: Stand,
    recorded: Recorded,
    energy: PotentialEnergy,
) -> None:
    kept = run.trajectories - round(config.validation * run.trajectories)
    cut = min(max(kept - recorded.trajectory, 0), len(recorded.x))
    parts: tuple[tuple[Split, int, int], ...] = (
        (config.split, 0, cut),
        ("validation", cut, len(recorded.x)),
    )
    for split, start, end in parts:
        key = f"{config.split} seed {config.run_seed} segment {stand.segments} {split}"
        # A run that was killed between its shards and its state file finds some of them there already.
        if end > start and key not in writer:
            columns = _columns(recorded, slice(start, end), stand.first_trajectory, energy)
            # The first shard of a run says how it was made; the manifest need not repeat it for every one.
            settings = {"config": stand.config, **run.source} if recorded.frame == 0 else {}
            spent = {} if run.evaluations is None else {"evaluations": run.evaluations}
            writer.append(key, split, columns, source={"seed": config.run_seed, **spent, **settings})


def _columns(recorded: Recorded, part: slice, first: int, energy: PotentialEnergy) -> dict[str, Any]:
    """Return the columns of some of the trajectories, one after the other.

    Args:
        recorded: what a segment adds.
        part: which of its trajectories.
        first: number of the run's first trajectory in the dataset.
        energy: of the positions.
    """
    x = as_stored(recorded.x[part])
    n, frames = x.shape[:2]
    positions = x.flatten(0, 1).numpy()
    number = first + recorded.trajectory + part.start
    columns = {
        "positions": positions,
        "energy": energy(positions),
        "trajectory": torch.arange(number, number + n).repeat_interleave(frames),
        "frame": torch.arange(recorded.frame, recorded.frame + frames).repeat(n),
    }
    return columns if recorded.bias is None else columns | {"bias": recorded.bias[part].flatten()}
