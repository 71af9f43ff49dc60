"""A trajectory of any program becomes samples with energies: checked, recomputed, committed in pieces."""

import hashlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from boltzkit.data.bias import FrameBias
from boltzkit.data.given_energies import Comparison, compare
from boltzkit.data.manifest import LeftOut, Split
from boltzkit.data.piece import Evaluated, Evaluator, piece_item
from boltzkit.data.recognise import refuse_foreign_atoms, refuse_foreign_frames
from boltzkit.data.rounding import energy_error, rounding_step
from boltzkit.data.runs import to_runs
from boltzkit.data.trajectory_files import TrajectoryFile, open_trajectory
from boltzkit.data.writer import DatasetWriter
from boltzkit.energy.constants import BOLTZMANN
from boltzkit.errors import UserError
from boltzkit.molecule import Molecule
from boltzkit.workers import Item, Tell, Workers, run_items

__all__ = ["LabelResult", "Labeller"]

_SHARD_BYTES = 1 << 26
_HIGH = 5.0
"""Times the energy of thermal motion, (3N − 6)/2 · k_BT, above which typical frames look foreign to the potential."""
_AHEAD = 4
"""Pieces that may be on their way to workers or wait to be stored, whatever the number of workers."""
_FAR = 50.0
"""Reduced bias of a typical frame above which it seems to be the bias of another simulation."""


@dataclass
class LabelResult:
    """What became of one trajectory.

    Attributes:
        trajectory: its number in the dataset.
        n_frames: frames of the file.
        n_new: samples stored now.
        n_before: frames that were dealt with already.
        left_out: frames that failed now, by reason.
        comparison: of the energies that came with the file, if any.
        remarks: what else is worth knowing.
    """

    trajectory: int
    n_frames: int
    n_new: int = 0
    n_before: int = 0
    left_out: Counter[str] = field(default_factory=Counter)
    comparison: Comparison | None = None
    remarks: list[str] = field(default_factory=list)


class Labeller:
    """Labels trajectories of one molecule into a dataset. The same file again goes on where it stopped.

    Every frame costs one energy evaluation. A frame without finite coordinates, whole bonds and a sane energy is left
    out, and the manifest names it with its reason.

    Args:
        molecule: whose trajectories they are.
        writer: of the dataset.
        shard_frames: frames per shard; about 64 MB by default.
        workers: where energies are computed, a shard at a time; in this process by default. What is stored does not
            depend on it, bit for bit.
        tell: called with lines on workers.
    """

    def __init__(
        self,
        molecule: Molecule,
        writer: DatasetWriter,
        shard_frames: int | None = None,
        workers: Workers | None = None,
        tell: Tell = lambda text: None,
    ) -> None:
        self.molecule, self.writer = molecule, writer
        self._workers, self._tell = workers, tell
        self._forces = "forces" in writer.manifest.about.columns
        self._evaluator = Evaluator(molecule, writer.manifest.about.temperature, self._forces)
        self._frames = shard_frames or max(1, _SHARD_BYTES // (12 * molecule.n_atoms))

    def label(
        self,
        path: str | Path,
        split: Split = "train",
        energies: NDArray[np.float64] | None = None,
        *,
        ignore_energies: bool = False,
        bias: FrameBias | None = None,
    ) -> LabelResult:
        """Label one file, which becomes one trajectory of the dataset.

        Args:
            path: the trajectory.
            split: where all of it goes.
            energies: one per frame, to compare with; those in the file by default.
            ignore_energies: compare with none.
            bias: what the simulation added to the potential; datasets with a bias column need it.
        """
        if (bias is not None) != ("bias" in self.writer.manifest.about.columns):
            raise UserError(
                f"{path}: a dataset stores the bias energy of all of its frames or of none, and {self.writer.folder} "
                f"{'stores none' if bias is not None else 'stores it'}."
            )
        with open_trajectory(path) as file:
            refuse_foreign_atoms(file.n_atoms, file.elements, self.molecule, str(path))
            given = None if ignore_energies else (file.energy if energies is None else energies)
            if given is not None and given.shape != (file.n_frames,):
                raise UserError(
                    f"{path} has {file.n_frames} frames, but {given.size} energies were given with it."
                )
            if bias is not None:
                bias.refuse_other(file.n_frames, file.path)
            digest = _digest(file.path)
            result = LabelResult(self._number(digest, split, file.path, bias), file.n_frames)
            self._label(file, digest, split, given, bias, result)
        return result

    def _label(
        self,
        file: TrajectoryFile,
        digest: str,
        split: Split,
        given: NDArray[np.float64] | None,
        bias: FrameBias | None,
        result: LabelResult,
    ) -> None:
        work = _Work(file, digest, split, given, bias, result)
        missing = []
        for start, stop in self._pieces(file.n_frames):
            if f"{digest}/{start}" in self.writer:
                result.n_before += stop - start
            else:
                missing.append((start, stop))
        if self._workers is None:
            for start, stop in missing:
                positions = self._read(file, start, stop)
                self._store(work, start, positions, self._evaluator(positions))
        elif missing:
            self._label_elsewhere(work, missing, self._workers)

    def _label_elsewhere(self, work: "_Work", pieces: list[tuple[int, int]], workers: Workers) -> None:
        """Let workers compute energies; they are stored here, in the order of the frames, while others run."""
        temperature = self.writer.manifest.about.temperature
        self._read(work.file, *pieces[0])  # a foreign file is refused before anyone works on it
        items = [
            piece_item(work.file.path, start, stop, self.molecule, temperature, self._forces)
            for start, stop in pieces
        ]

        def take(item: Item, found: dict[str, NDArray[Any]]) -> None:
            start, stop = item.arguments["start"], item.arguments["stop"]
            reasons = found.pop("reasons")
            self._store(work, start, self._read(work.file, start, stop), Evaluated(found, reasons))

        ahead = max(_AHEAD, 2 * workers.slots)
        place = str(self.writer.folder)
        run_items(workers, items, take, tell=self._tell, in_order=True, ahead=ahead, place=place)

    def _read(self, file: TrajectoryFile, start: int, stop: int) -> NDArray[np.float32]:
        positions = file.read(start, stop)
        refuse_foreign_frames(positions, self.molecule, str(file.path))
        return positions

    def _store(self, work: "_Work", start: int, positions: NDArray[np.float32], found: Evaluated) -> None:
        """Commit a piece and take note of it."""
        result, kept = work.result, found.reasons == ""
        columns: dict[str, Any] = {"positions": positions[kept], **found.columns}
        error = self._remark(columns["positions"], columns["energy"], result)
        if work.given is not None:
            work.compared.append((work.given[start : start + len(positions)][kept], columns["energy"]))
            given, computed = (np.concatenate(part) for part in zip(*work.compared, strict=True))
            result.comparison = self._compare(given, computed, error, work.file.path)
        columns["frame"] = np.flatnonzero(kept) + start
        columns["trajectory"] = np.full(int(kept.sum()), result.trajectory)
        if work.bias is not None:
            columns["bias"] = work.bias.energy(columns["frame"], columns["positions"])
            self._remark_bias(columns["bias"], result)
        left_out = tuple(_left_out(found.reasons, start, result.trajectory))
        source: dict[str, Any] = {"file": work.file.path.name, "sha256_begins": work.digest}
        source |= {} if work.bias is None else work.bias.source
        if result.comparison is not None:
            source["given_energies"] = result.comparison.sentence
        key = f"{work.digest}/{start}"
        self.writer.append(key, work.split, columns, left_out=left_out, source=source)
        result.n_new += int(kept.sum())
        result.left_out.update(found.reasons[~kept].tolist())

    def _pieces(self, n_frames: int) -> Iterator[tuple[int, int]]:
        for start in range(0, n_frames, self._frames):
            yield start, min(start + self._frames, n_frames)

    def _remark(
        self, positions: NDArray[np.float32], energy: NDArray[np.float64], result: LabelResult
    ) -> float:
        """Look at the first frames; return the energy error of rounded coordinates, kJ/mol."""
        if not len(energy):
            return 0.0
        step = rounding_step(positions)
        error = energy_error(positions, step, self._evaluator.potential)
        thermal = BOLTZMANN * self.writer.manifest.about.temperature
        remarks = []
        if step:
            remarks.append(
                f"coordinates are rounded to {step:g} nm, which moves energies by about {error:.2g} kJ/mol "
                f"({error / thermal:.2g} k_BT): a format of full precision (DCD, TRR, HDF5) keeps them"
            )
        excess = float(np.median(energy)) - self.molecule.minimum_energy
        expected = max(1.0, (3 * self.molecule.n_atoms - 6) / 2) * thermal
        if excess > _HIGH * expected:
            remarks.append(
                f"typical frames lie {excess:.4g} kJ/mol above the minimum, where thermal motion explains "
                f"{expected:.3g}: check the force field, the temperature and the order of atoms"
            )
        result.remarks = result.remarks or remarks
        return error

    def _remark_bias(self, bias: NDArray[np.float64], result: LabelResult) -> None:
        typical = (
            float(np.median(bias)) / (BOLTZMANN * self.writer.manifest.about.temperature)
            if len(bias)
            else 0.0
        )
        if typical > _FAR and not any("bias" in remark for remark in result.remarks):
            result.remarks.append(
                f"the bias is typically {typical:.3g} k_BT, where thermal motion explains a few: check that bias and "
                "frames belong together, and its unit"
            )

    def _compare(
        self, given: NDArray[np.float64], computed: NDArray[np.float64], error: float, path: Path
    ) -> Comparison | None:
        comparison = compare(given, computed, self.writer.manifest.about.temperature, error)
        if comparison is not None and not comparison.agrees:
            raise UserError(f"{path}: {comparison.sentence}.")
        return comparison

    def _number(self, digest: str, split: Split, path: Path, bias: FrameBias | None) -> int:
        """Return the number of a file's trajectory: that of its earlier pieces, else a new one."""
        for shard in self.writer.manifest.shards:
            if shard.key.startswith(f"{digest}/"):
                if shard.split != split:
                    raise UserError(
                        f"{path} is in {self.writer.folder} already, in the split {shard.split}: a trajectory belongs "
                        "to one split."
                    )
                if bias is not None and any(shard.source.get(k) != v for k, v in bias.source.items()):
                    raise UserError(
                        f"{path} is in {self.writer.folder} already, with another bias: stored frames never change, so "
                        "choose another folder with --out."
                    )
                return shard.trajectories[0][0]
        return self.writer.next_trajectory


@dataclass
class _Work:
    """One file while it is labelled."""

    file: TrajectoryFile
    digest: str
    split: Split
    given: NDArray[np.float64] | None
    bias: FrameBias | None
    result: LabelResult
    compared: list[tuple[NDArray[np.float64], NDArray[np.float64]]] = field(default_factory=list)
    """Energies that were given and computed, of the pieces so far."""


def _left_out(reasons: NDArray[np.str_], start: int, trajectory: int) -> Iterator[LeftOut]:
    for reason in sorted(set(reasons.tolist()) - {""}):
        frames = to_runs(np.flatnonzero(reasons == reason) + start)
        yield LeftOut(reason=reason, trajectory=trajectory, frames=frames)


def _digest(path: Path) -> str:
    """Return the name of a file's content: a copy elsewhere is the same trajectory."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:16]
