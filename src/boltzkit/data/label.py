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
from boltzkit.data.energies import PotentialEnergy
from boltzkit.data.given_energies import Comparison, compare
from boltzkit.data.manifest import LeftOut, Split
from boltzkit.data.recognise import broken_bonds, refuse_foreign_atoms, refuse_foreign_frames
from boltzkit.data.rounding import energy_error, rounding_step
from boltzkit.data.runs import to_runs
from boltzkit.data.trajectory_files import TrajectoryFile, open_trajectory
from boltzkit.data.writer import DatasetWriter
from boltzkit.energy.constants import BOLTZMANN
from boltzkit.errors import UserError
from boltzkit.molecule import Molecule

__all__ = ["LabelResult", "Labeller"]

_SHARD_BYTES = 1 << 26
_ABSURD = 1e8
"""Reduced energy at which atoms lie on each other; no simulation visits it, and energies are regularised from there."""
_HIGH = 5.0
"""Times the energy of thermal motion, (3N − 6)/2 · k_BT, above which typical frames look foreign to the potential."""
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
    """

    def __init__(self, molecule: Molecule, writer: DatasetWriter, shard_frames: int | None = None) -> None:
        self.molecule, self.writer = molecule, writer
        self._potential = PotentialEnergy(molecule)
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
        given_so_far, computed_so_far = np.empty(0), np.empty(0)
        for start, stop in self._pieces(file.n_frames):
            key = f"{digest}/{start}"
            if key in self.writer:
                result.n_before += stop - start
                continue
            positions = file.read(start, stop)
            refuse_foreign_frames(positions, self.molecule, str(file.path))
            columns, reasons = self._evaluate(positions)
            kept = reasons == ""
            error = self._remark(positions[kept], columns["energy"], result)
            if given is not None:
                given_so_far = np.append(given_so_far, given[start:stop][kept])
                computed_so_far = np.append(computed_so_far, columns["energy"])
                result.comparison = self._compare(given_so_far, computed_so_far, error, file.path)
            columns["frame"] = np.flatnonzero(kept) + start
            columns["trajectory"] = np.full(int(kept.sum()), result.trajectory)
            if bias is not None:
                columns["bias"] = bias.energy(columns["frame"], columns["positions"])
                self._remark_bias(columns["bias"], result)
            left_out = tuple(_left_out(reasons, start, result.trajectory))
            source: dict[str, Any] = {"file": file.path.name, "sha256_begins": digest}
            source |= {} if bias is None else bias.source
            if result.comparison is not None:
                source["given_energies"] = result.comparison.sentence
            self.writer.append(key, split, columns, left_out=left_out, source=source)
            result.n_new += int(kept.sum())
            result.left_out.update(reasons[~kept].tolist())

    def _pieces(self, n_frames: int) -> Iterator[tuple[int, int]]:
        for start in range(0, n_frames, self._frames):
            yield start, min(start + self._frames, n_frames)

    def _evaluate(self, positions: NDArray[np.float32]) -> tuple[dict[str, Any], NDArray[np.str_]]:
        """Return the columns of frames that are sound, and for every frame why it is not ("" if it is)."""
        reasons = np.full(len(positions), "", dtype="U40")
        finite = np.isfinite(positions).all((1, 2))
        reasons[~finite] = "coordinates are not finite"
        rows = np.flatnonzero(finite)
        broken = broken_bonds(positions[rows], self.molecule)
        reasons[rows[broken]] = "a bond is broken"
        rows = rows[~broken]
        columns: dict[str, Any] = {"positions": positions[rows]}
        if "forces" in self.writer.manifest.about.columns:
            columns["energy"], columns["forces"] = self._potential.with_forces(positions[rows])
            sound = np.isfinite(columns["forces"].astype(np.float32)).all((1, 2))
        else:
            columns["energy"], sound = self._potential(positions[rows]), True
        limit = _ABSURD * BOLTZMANN * self.writer.manifest.about.temperature
        sound = sound & (np.abs(columns["energy"]) < limit)
        reasons[rows[~sound]] = f"no finite energy below {_ABSURD:g} k_BT"
        return {name: values[sound] for name, values in columns.items()}, reasons

    def _remark(
        self, positions: NDArray[np.float32], energy: NDArray[np.float64], result: LabelResult
    ) -> float:
        """Look at the first frames; return the energy error of rounded coordinates, kJ/mol."""
        if not len(energy):
            return 0.0
        step = rounding_step(positions)
        error = energy_error(positions, step, self._potential)
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


def _left_out(reasons: NDArray[np.str_], start: int, trajectory: int) -> Iterator[LeftOut]:
    for reason in sorted(set(reasons.tolist()) - {""}):
        frames = to_runs(np.flatnonzero(reasons == reason) + start)
        yield LeftOut(reason=reason, trajectory=trajectory, frames=frames)


def _digest(path: Path) -> str:
    """Return the name of a file's content: a copy elsewhere is the same trajectory."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:16]
