"""Reading a dataset: memory-mapped, so that a folder of any size opens at once and costs little memory."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from boltzkit.data.columns import COLUMNS
from boltzkit.data.manifest import SPLITS, About, Manifest, Shard, Split
from boltzkit.data.shard_files import PageBudget, ShardFile
from boltzkit.data.verification import Verification, compare_energies
from boltzkit.errors import UserError, did_you_mean
from boltzkit.molecule import Molecule

__all__ = ["Dataset", "Trajectory"]


@dataclass(frozen=True, eq=False)
class Trajectory:
    """Samples of one trajectory in time order.

    Attributes:
        number: of the trajectory.
        index: where its samples are in the dataset that gave it, ``(n,)``.
        frame: their frame numbers, ascending; a gap means that frames were left out.
    """

    number: int
    index: NDArray[np.int64]
    frame: NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class _Piece:
    """An open shard: its manifest entry and its files."""

    shard: Shard
    files: dict[str, ShardFile]


class Dataset:
    """Energy-labelled samples of one molecule on disk; `open` makes one.

    Samples are numbered from 0 in the order in which they were committed. A view of one split has its own numbers.

    Attributes:
        folder: where it is.
        manifest: what it holds; unchanged by views.
    """

    def __init__(
        self, folder: Path, manifest: Manifest, pieces: tuple[_Piece, ...], budget: PageBudget
    ) -> None:
        self.folder, self.manifest = folder, manifest
        self._pieces, self._budget = pieces, budget
        self._starts = np.cumsum([0, *(piece.shard.samples for piece in pieces)])

    @classmethod
    def open(cls, folder: str | Path, molecule: Molecule | None = None) -> Self:
        """Open a folder after a look at the size and header of every file.

        Args:
            folder: the dataset folder.
            molecule: refuse data of another molecule or force field.
        """
        path = Path(folder)
        manifest = Manifest.read(path)
        if molecule is not None:
            manifest.about.refuse_other(molecule.name, molecule.hash, path)
        pieces = tuple(_open(path, shard, manifest.about) for shard in manifest.shards if shard.samples)
        damages = [file.damage() for piece in pieces for file in piece.files.values()]
        found = [damage for damage in damages if damage is not None]
        if found:
            raise UserError(
                f"{path} is damaged: {'; '.join(found)}; restore the named files from a copy or make the dataset anew."
            )
        return cls(path, manifest, pieces, PageBudget())

    @property
    def about(self) -> About:
        """What all samples have in common."""
        return self.manifest.about

    @property
    def n_left_out(self) -> int:
        """Frames that failed when the dataset was made, over all splits."""
        runs = [run for s in self.manifest.shards for failed in s.left_out for run in failed.frames]
        return sum(last - first + 1 for first, last in runs)

    @property
    def evaluations(self) -> int | None:
        """Energy evaluations that its simulations took, as far as they said; None if none did."""
        spent: dict[Any, int] = {}
        for shard in self.manifest.shards:
            run = shard.source.get("seed"), shard.key.split(" seed ")[0]
            if isinstance(count := shard.source.get("evaluations"), int):
                spent[run] = max(spent.get(run, 0), count)
        return sum(spent.values()) if spent else None

    def __len__(self) -> int:
        return int(self._starts[-1])

    def __repr__(self) -> str:
        return f"Dataset({str(self.folder)!r}, {len(self):,} samples of {self.about.molecule})"

    def split(self, name: Split) -> "Dataset":
        """Return the samples of one split."""
        if name not in SPLITS:
            raise UserError(f"There is no split '{name}'." + did_you_mean(name, SPLITS))
        pieces = tuple(piece for piece in self._pieces if piece.shard.split == name)
        return Dataset(self.folder, self.manifest, pieces, self._budget)

    def positions(self, index: ArrayLike) -> NDArray[np.float32]:
        """Return coordinates in nm, ``(n,) -> (n, atoms, 3)``."""
        return self.column("positions", index)

    def energy(self, index: ArrayLike) -> NDArray[np.float64]:
        """Return energies of the unbiased potential in kJ/mol, ``(n,) -> (n,)``; reduced ones are E/k_BT."""
        return self.column("energy", index)

    def column(self, name: str, index: ArrayLike) -> NDArray[Any]:
        """Return any column for some samples, in the order asked for.

        Args:
            name: positions, energy, trajectory, frame, and forces or bias where the dataset has them.
            index: sample numbers, ``(n,)``.
        """
        if name not in self.about.columns:
            raise UserError(f"{self.folder} stores no '{name}'." + did_you_mean(name, self.about.columns))
        wanted = self._valid(index)
        out = np.empty(COLUMNS[name].shape(len(wanted), self.about.n_atoms), COLUMNS[name].dtype)
        # In ascending order each shard is visited once, and from front to back.
        order = np.argsort(wanted, kind="stable")
        ascending = wanted[order]
        cuts = np.searchsorted(ascending, self._starts)
        for number in np.flatnonzero(np.diff(cuts)):
            rows = slice(cuts[number], cuts[number + 1])
            file = self._pieces[number].files[name]
            out[order[rows]] = file.array[ascending[rows] - self._starts[number]]
            self._budget.touch(file, rows.stop - rows.start)
        return out

    def trajectories(self) -> Iterator[Trajectory]:
        """Yield the trajectories by number, each with its samples in time order.

        Reads the numbers alone (12 bytes per sample); positions and energies are for the caller to fetch.
        """
        number, frame = self._whole("trajectory"), self._whole("frame")
        order = np.lexsort((frame, number))
        cuts = np.flatnonzero(np.diff(number[order])) + 1
        for index in np.split(order, cuts):
            if len(index):
                yield Trajectory(int(number[index[0]]), index, frame[index])

    def verify(self, molecule: Molecule | None = None, sample: int = 1000, seed: int = 0) -> Verification:
        """Read every file against its checksum, and recompute some energies when the molecule is given.

        Costs one reading of all data and ``sample`` energy evaluations.
        """
        if molecule is not None:
            self.about.refuse_other(molecule.name, molecule.hash, self.folder)
        files = [file for piece in self._pieces for file in piece.files.values()]
        damages = tuple(damage for file in files if (damage := file.damage() or file.altered()))
        if damages or molecule is None or not len(self):
            return Verification(self.folder, len(files), damages)
        rows = np.sort(np.random.default_rng(seed).choice(len(self), min(sample, len(self)), replace=False))
        wrong = compare_energies(molecule, self.positions(rows), self.energy(rows))
        return Verification(self.folder, len(files), self._by_file(rows, wrong), len(rows))

    def _by_file(self, rows: NDArray[np.int64], wrong: dict[int, str]) -> tuple[str, ...]:
        """Return one sentence for each file with wrong energies: how many, and the first of them."""
        found: dict[int, list[str]] = {}
        for i, sentence in wrong.items():
            number = int(np.searchsorted(self._starts, rows[i], side="right")) - 1
            found.setdefault(number, []).append(f"row {rows[i] - self._starts[number]} {sentence}")
        return tuple(
            f"{self._pieces[number].files['energy'].stored.name} has {len(sentences)} wrong energies of "
            f"{len(rows)} looked at: {sentences[0]}"
            for number, sentences in found.items()
        )

    def _whole(self, name: str) -> NDArray[Any]:
        return np.concatenate(
            [np.empty(0, COLUMNS[name].dtype), *(p.files[name].array for p in self._pieces)]
        )

    def _valid(self, index: ArrayLike) -> NDArray[np.int64]:
        wanted = np.asarray(index)
        wanted = wanted if wanted.size else wanted.astype(np.int64)  # an empty list is one of floats to NumPy
        if wanted.ndim != 1 or wanted.dtype.kind not in "iu":
            raise UserError(
                f"Sample numbers are a list of integers, not {wanted.dtype} of shape {wanted.shape}."
            )
        if len(wanted) and not (wanted.min() >= 0 and wanted.max() < len(self)):
            raise UserError(
                f"Sample numbers lie between 0 and {len(self) - 1}, not {wanted.min()} to {wanted.max()}."
            )
        return wanted.astype(np.int64)


def _open(folder: Path, shard: Shard, about: About) -> _Piece:
    files = {
        name: ShardFile(
            folder, stored, COLUMNS[name].dtype, COLUMNS[name].shape(shard.samples, about.n_atoms)
        )
        for name, stored in shard.files.items()
    }
    return _Piece(shard, files)
