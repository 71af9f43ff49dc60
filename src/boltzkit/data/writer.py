"""Writing a dataset: shards appear whole or not at all, whenever the writer is killed."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from boltzkit.data.columns import COLUMNS
from boltzkit.data.lock import FolderLock
from boltzkit.data.manifest import SPLITS, About, LeftOut, Manifest, Shard, Split
from boltzkit.data.runs import overlap, to_runs
from boltzkit.data.shard_files import ShardFile, sync_folder, write_shard_file
from boltzkit.errors import UserError, did_you_mean
from boltzkit.storage import disk_errors_explained, write_json

__all__ = ["DatasetWriter"]

_OWN_SHARD = re.compile(r"\.?\d{6,}\.[a-z]+\.npy(\.partial)?")
_FIRST_FILES = {".lock", ".manifest.json.partial", "shards"}
"""What a writer that was killed before the first manifest was complete leaves behind."""


class DatasetWriter:
    """Appends shards to a new dataset, or to one of the same description. Use it in a ``with`` block.

    A shard is committed in this order: its files are written under other names, flushed to disk and renamed; then
    the manifest that names them replaces the old one. A kill at any moment leaves a readable dataset with or without
    the shard, and the next writer removes what is not in the manifest.

    Every shard has a key. Work that is cut into pieces asks ``key in writer`` and goes on with what is missing.

    Args:
        folder: the dataset folder, created when it is not there.
        about: what all samples have in common.
    """

    def __init__(self, folder: str | Path, about: About) -> None:
        self.folder = Path(folder)
        with disk_errors_explained(self.folder):
            (self.folder / "shards").mkdir(parents=True, exist_ok=True)
        self._lock = FolderLock(self.folder)
        try:
            self.manifest = self._join(about)
            self._keys = {shard.key for shard in self.manifest.shards}
            self._remove_leftovers()
        except BaseException:
            self._lock.release()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._lock.release()

    def __contains__(self, key: str) -> bool:
        """Tell whether the shard of a key is committed."""
        return key in self._keys

    @property
    def n_committed(self) -> int:
        """Samples that are safe on disk."""
        return sum(self.manifest.counts.values())

    @property
    def next_trajectory(self) -> int:
        """The smallest number above those of all trajectories."""
        return 1 + max((last for shard in self.manifest.shards for _, last in shard.trajectories), default=-1)

    def append(
        self,
        key: str,
        split: Split,
        columns: Mapping[str, ArrayLike],
        *,
        left_out: Sequence[LeftOut] = (),
        source: dict[str, Any] | None = None,
    ) -> None:
        """Commit one shard; returns when it is safe on disk.

        Args:
            key: name of this piece of work. A key that is there already is refused.
            split: ``train``, ``validation`` or ``test``. All of a trajectory belongs to one split.
            columns: an array for each column of the dataset, one row per sample.
            left_out: frames that failed and are not among the samples.
            source: where these samples come from.
        """
        if key in self:
            raise UserError(f"{self.folder} already holds the shard '{key}'.")
        if split not in SPLITS:
            raise UserError(f"There is no split '{split}'." + did_you_mean(split, SPLITS))
        arrays = self._checked(columns, key)
        frame = arrays["frame"]
        numbers = [*np.unique(arrays["trajectory"]), *(failed.trajectory for failed in left_out)]
        shard = Shard(
            key=key,
            split=split,
            samples=len(frame),
            trajectories=to_runs(numbers),
            frames=(int(frame.min()), int(frame.max())) if len(frame) else None,
            left_out=tuple(left_out),
            source=source or {},
        )
        self._refuse_mixing(shard)
        self._refuse_repetition(shard, arrays)
        self._commit(shard, arrays)

    def _commit(self, shard: Shard, arrays: dict[str, NDArray[Any]]) -> None:
        number = len(self.manifest.shards)
        if shard.samples:
            files = {
                name: write_shard_file(self.folder, f"shards/{number:06d}.{name}.npy", array)
                for name, array in arrays.items()
            }
            shard = shard.model_copy(update={"files": files})
            sync_folder(self.folder / "shards")
        manifest = self.manifest.with_shard(shard)
        write_json(self.folder / "manifest.json", manifest.model_dump(mode="json"))
        sync_folder(self.folder)
        self.manifest = manifest
        self._keys.add(shard.key)

    def _join(self, about: About) -> Manifest:
        begun = (self.folder / "manifest.json").is_file()
        if not begun and {path.name for path in self.folder.iterdir()} - _FIRST_FILES:
            raise UserError(
                f"{self.folder} is not empty and not a dataset: choose another folder with --out."
            )
        manifest = Manifest.read(self.folder) if begun else Manifest(about=about)
        if not manifest.shards:
            # What never held a sample binds nobody: a first attempt may have named the wrong molecule.
            manifest = Manifest(about=about)
            write_json(self.folder / "manifest.json", manifest.model_dump(mode="json"))
        manifest.about.refuse_other(about.molecule, about.molecule_hash, self.folder)
        for name in ("temperature", "bias", "columns"):
            then, now = getattr(manifest.about, name), getattr(about, name)
            if then != now:
                raise UserError(
                    f"{self.folder} holds data of another kind, its {name} is {then} and not {now}: choose another "
                    "folder with --out."
                )
        return manifest

    def _remove_leftovers(self) -> None:
        known = {self.folder / file.name for shard in self.manifest.shards for file in shard.files.values()}
        for path in (self.folder / "shards").iterdir():
            if path not in known and _OWN_SHARD.fullmatch(path.name):
                path.unlink()
        (self.folder / ".manifest.json.partial").unlink(missing_ok=True)

    def _checked(self, columns: Mapping[str, ArrayLike], key: str) -> dict[str, NDArray[Any]]:
        """Return the arrays in their stored precision, or refuse them."""
        about = self.manifest.about
        if set(columns) != set(about.columns):
            raise UserError(
                f"Shard '{key}' has {', '.join(columns)}, but {self.folder} stores {', '.join(about.columns)}."
            )
        n = len(np.asarray(columns["frame"]))
        arrays = {}
        for name in about.columns:
            column, given = COLUMNS[name], np.asarray(columns[name])
            with np.errstate(over="ignore"):  # what does not fit becomes infinite, and is refused below
                array = given.astype(column.dtype)
            if array.dtype.kind == "i" and not np.array_equal(array, given):
                raise UserError(f"Shard '{key}': {name} must be whole numbers that fit {array.dtype}.")
            if array.shape != column.shape(n, about.n_atoms):
                raise UserError(
                    f"Shard '{key}': {name} has shape {array.shape}, not {column.shape(n, about.n_atoms)}."
                )
            bad = ~np.isfinite(array).all(axis=tuple(range(1, array.ndim)))
            if bad.any():
                raise UserError(
                    f"Shard '{key}': {name} is not finite for {bad.sum()} of {n} samples, the first in row "
                    f"{bad.argmax()}: leave them out and count them in left_out."
                )
            arrays[name] = array
        return arrays

    def _refuse_mixing(self, shard: Shard) -> None:
        for other in self.manifest.shards:
            if other.split != shard.split:
                number = overlap(other.trajectories, shard.trajectories)
                if number is not None:
                    raise UserError(
                        f"Shard '{shard.key}': trajectory {number} belongs to {other.split} already and cannot also "
                        f"go to {shard.split}: neighbours in time are alike, so splits take whole trajectories."
                    )

    def _refuse_repetition(self, shard: Shard, arrays: dict[str, NDArray[Any]]) -> None:
        """Refuse a frame that is there already. Only shards that may hold one are looked into."""
        pairs = [np.stack([arrays["trajectory"].astype(np.int64), arrays["frame"]])]
        for other in self.manifest.shards:
            if (
                shard.frames
                and other.frames
                and overlap([shard.frames], [other.frames]) is not None
                and overlap(shard.trajectories, other.trajectories) is not None
            ):
                pairs.append(np.stack([self._stored(other, name) for name in ("trajectory", "frame")]))
        together = np.concatenate(pairs, axis=1)
        together = together[:, np.lexsort(together[::-1])]
        repeated = (together[:, 1:] == together[:, :-1]).all(0)
        if repeated.any():
            trajectory, frame = together[:, repeated.argmax()]
            raise UserError(
                f"Shard '{shard.key}': frame {frame} of trajectory {trajectory} is there more than once."
            )

    def _stored(self, shard: Shard, name: str) -> NDArray[np.int64]:
        column = COLUMNS[name]
        shape = column.shape(shard.samples, self.manifest.about.n_atoms)
        file = ShardFile(self.folder, shard.files[name], column.dtype, shape)
        damage = file.damage()
        if damage:
            raise UserError(f"{self.folder} is damaged: {damage}.")
        return np.array(file.array, dtype=np.int64)
