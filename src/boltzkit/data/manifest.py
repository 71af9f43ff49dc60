"""The manifest of a dataset folder: what it holds, where that comes from, and the checksum of every file."""

import os
from itertools import combinations
from pathlib import Path
from typing import Any, Literal, Self, get_args

from pydantic import Field, model_validator

from boltzkit.config import Config
from boltzkit.data.columns import COLUMNS, REQUIRED
from boltzkit.data.runs import Runs, overlap
from boltzkit.errors import UserError
from boltzkit.molecule import Molecule
from boltzkit.storage import read_json

__all__ = ["FORMAT", "SPLITS", "About", "LeftOut", "Manifest", "Shard", "Split", "StoredFile"]

FORMAT = 1
"""Version of the folder's layout."""

Split = Literal["train", "validation", "test"]
SPLITS: tuple[Split, ...] = get_args(Split)


class About(Config):
    """What all samples of a dataset have in common."""

    molecule: str
    """Name of the molecule."""
    molecule_hash: str
    """Content hash of topology and System: the potential that the energies belong to."""
    n_atoms: int = Field(ge=1)
    """Atoms of one sample."""
    temperature: float = Field(gt=0)
    """Kelvin, at which the samples were drawn."""
    bias: str | None = None
    """How the samples depart from the Boltzmann distribution, in words; none when they do not."""
    columns: tuple[str, ...] = REQUIRED
    """What is stored of every sample."""
    source: dict[str, Any] = Field(default_factory=dict)
    """Where the data come from: protocol, seed, command, whatever helps."""

    @classmethod
    def of(
        cls,
        molecule: Molecule,
        temperature: float,
        *,
        bias: str | None = None,
        optional: tuple[str, ...] = (),
        source: dict[str, Any] | None = None,
    ) -> Self:
        """Describe samples of a molecule, with ``forces`` or ``bias`` as optional columns."""
        content = {
            "molecule": molecule.name,
            "molecule_hash": molecule.hash,
            "n_atoms": molecule.n_atoms,
            "temperature": temperature,
            "bias": bias,
            "columns": (*REQUIRED, *optional),
            "source": source or {},
        }
        return cls.parse(content, source="the description of the dataset")

    def refuse_other(self, molecule: str, molecule_hash: str, folder: Path) -> None:
        """Refuse to be taken for data of another molecule or force field."""
        if self.molecule_hash != molecule_hash:
            raise UserError(
                f"{folder} holds {self.molecule} ({self.n_atoms} atoms, hash {self.molecule_hash[:8]}), not {molecule} "
                f"(hash {molecule_hash[:8]}): molecule and force field must be the same for its energies to be right."
            )

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        optional = set(self.columns) - set(REQUIRED)
        if not set(REQUIRED) <= set(self.columns) <= set(COLUMNS) or len(set(self.columns)) < len(
            self.columns
        ):
            raise ValueError(f"columns are {', '.join(REQUIRED)} and optionally forces and bias")
        if "bias" in optional and self.bias is None:
            raise ValueError("samples with a bias energy need a description of the bias")
        return self


class StoredFile(Config):
    """One file of a shard."""

    name: str = Field(pattern=r"^shards/\d{6,}\.[a-z]+\.npy$")
    """Path below the dataset folder."""
    size: int = Field(ge=0)
    """Bytes."""
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    """Checksum of the content."""


class LeftOut(Config):
    """Frames that were looked at and not stored."""

    reason: str
    """Why."""
    trajectory: int
    """Number of the trajectory."""
    frames: Runs
    """Their numbers, as runs (first, last)."""


class Shard(Config):
    """Samples that were committed together. It belongs to one split and never changes."""

    key: str = Field(min_length=1, max_length=200)
    """What the writer calls this piece of work, unique in the dataset."""
    split: Split
    """What the samples may be used for."""
    samples: int = Field(ge=0)
    """How many."""
    trajectories: Runs = ()
    """Numbers of their trajectories, as runs (first, last)."""
    frames: tuple[int, int] | None = None
    """Smallest and largest frame number."""
    files: dict[str, StoredFile] = Field(default_factory=dict)
    """One file for each column; none where all frames were left out."""
    left_out: tuple[LeftOut, ...] = ()
    """Frames that failed."""
    source: dict[str, Any] = Field(default_factory=dict)
    """Where these samples come from."""


class Manifest(Config):
    """The content of manifest.json."""

    format: int = FORMAT
    """Version of the folder's layout."""
    about: About
    """What all samples have in common."""
    units: dict[str, str] = Field(default_factory=lambda: {name: c.unit for name, c in COLUMNS.items()})
    """Unit of each column."""
    counts: dict[Split, int] = Field(default_factory=lambda: dict.fromkeys(SPLITS, 0))
    """Samples in each split."""
    shards: tuple[Shard, ...] = ()
    """In the order in which they were committed."""

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Read the manifest of a folder, with one sentence when it is none."""
        path = folder / "manifest.json"
        if not os.path.isfile(path):  # unlike Path's own, no error for a name that no file can have
            raise UserError(f"{folder} is not a dataset: it has no manifest.json.")
        content = read_json(path)
        version = content.get("format") if isinstance(content, dict) else None
        if version != FORMAT:
            raise UserError(f"{path} has format {version}, but this boltzkit reads format {FORMAT}.")
        return cls.parse(content, source=str(path))

    def with_shard(self, shard: Shard) -> Self:
        """Return the manifest with one more shard."""
        counts = self.counts | {shard.split: self.counts[shard.split] + shard.samples}
        return self.model_copy(update={"counts": counts, "shards": (*self.shards, shard)})

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        keys = [shard.key for shard in self.shards]
        if len(set(keys)) < len(keys):
            raise ValueError("two shards have the same key")
        for shard in self.shards:
            if shard.samples and set(shard.files) != set(self.about.columns):
                raise ValueError(f"shard {shard.key} lacks files")
        found = {split: sum(s.samples for s in self.shards if s.split == split) for split in SPLITS}
        if found != self.counts:
            raise ValueError("its counts are not those of its shards")
        for a, b in combinations(SPLITS, 2):
            mixed = overlap(self._trajectories(a), self._trajectories(b))
            if mixed is not None:
                raise ValueError(f"trajectory {mixed} is in both {a} and {b}")
        return self

    def _trajectories(self, split: Split) -> list[tuple[int, int]]:
        return sorted({run for shard in self.shards if shard.split == split for run in shard.trajectories})
