"""Recording a simulation with a bias: as `recording` does, with the bias energy of every frame beside its energy."""

from abc import abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from boltzkit.data import About, Dataset, DatasetWriter, Split, assign
from boltzkit.data.energies import PotentialEnergy
from boltzkit.errors import Interrupted
from boltzkit.interrupt import stop_requested
from boltzkit.molecule import Molecule
from boltzkit.simulate.protocol import Protocol
from boltzkit.simulate.recording import Recorded, Run, Tell
from boltzkit.simulate.state_file import Stand, claimed, read_stand, write_stand

__all__ = ["BiasedRun", "record_biased"]


class BiasedRun(Run):
    """A run whose bias does not change while frames are stored."""

    @abstractmethod
    def bias(self, positions: Tensor, trajectory: int) -> NDArray[np.float64]:
        """Return the bias in kJ/mol of frames as they are stored, ``(n, atoms, 3) -> (n,)``.

        Args:
            positions: frames of one trajectory.
            trajectory: its number, counted from the run's first.
        """

    @abstractmethod
    def source(self) -> Mapping[str, Any]:
        """Return what weights need to know, for the manifest."""


def record_biased(
    molecule: Molecule, config: Protocol, run: BiasedRun, out: Path, tell: Tell = print
) -> None:
    """Run all segments that are missing, commit each as shards, and tell what the frames are good for.

    Bias and energy are computed in double precision from the positions as they are stored. After a kill at any moment
    the same call goes on with the same results.
    """
    energy = PotentialEnergy(molecule)
    path = out / f"sampler-{config.split}-{config.run_seed}.safetensors"
    about = About.of(
        molecule,
        config.temperature,
        bias=config.bias,
        optional=("bias",),
        source={"protocol": config.title, "frame_interval": config.frame_interval},
    )
    with DatasetWriter(out, about) as writer, stop_requested() as stopping:

        def check() -> None:
            if stopping():
                raise Interrupted(
                    f"Stopped after {writer.n_committed:,} samples; the same command goes on with the rest."
                )

        stand = read_stand(path, config.identity())
        if stand is None:
            first = max(claimed(path), writer.next_trajectory)
            run.start(tell, check)
            stand = Stand(0, first, run.trajectories, config.identity(), *run.state())
            write_stand(path, stand)
        else:
            run.restore(stand.tensors, stand.numbers)
        while stand.segments < run.segments:
            check()
            for recorded in run.advance(stand.segments, check).values():
                _store(writer, config, run, stand, recorded, energy)
            stand.segments += 1
            stand.tensors, stand.numbers = run.state()
            write_stand(path, stand)
            tell(
                f"segment {stand.segments} of {run.segments}: {writer.n_committed:,} samples, {run.report()}"
            )
    tell(f"good for: {assign(Dataset.open(out, molecule).split(config.split)).reason}")


def _store(
    writer: DatasetWriter,
    config: Protocol,
    run: BiasedRun,
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
            columns = _columns(recorded, start, end, stand.first_trajectory, run, energy)
            # The first shard of a run says how it was made; the manifest need not repeat it for every one.
            settings = {"config": stand.config, **run.source()} if recorded.frame == 0 else {}
            spent = {} if run.evaluations is None else {"evaluations": run.evaluations}
            writer.append(key, split, columns, source={"seed": config.run_seed, **spent, **settings})


def _columns(
    recorded: Recorded, start: int, end: int, first: int, run: BiasedRun, energy: PotentialEnergy
) -> dict[str, Any]:
    x = recorded.x[start:end]
    n, frames = x.shape[:2]
    # Centred in the precision of the simulation: far from the origin, single precision has no decimals left.
    stored = (x - x.mean(-2, keepdim=True)).float()
    numbers = range(recorded.trajectory + start, recorded.trajectory + end)
    bias = [run.bias(rows, number) for rows, number in zip(stored, numbers, strict=True)]
    flat = stored.reshape(-1, *x.shape[2:]).numpy()
    return {
        "positions": flat,
        "energy": energy(flat),
        "bias": np.concatenate(bias),
        "trajectory": torch.arange(first + numbers[0], first + numbers[0] + n).repeat_interleave(frames),
        "frame": torch.arange(recorded.frame, recorded.frame + frames).repeat(n),
    }
