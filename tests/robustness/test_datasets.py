"""Dataset folders: the manifest, and the header and content of every file it names."""

import json
from pathlib import Path

import numpy as np
import pytest

from boltzkit.data import About, Dataset, DatasetWriter, load_labelled
from boltzkit.data.umbrella import stored_windows

SHARD = "shards/000000.positions.npy"
WINDOW = {"torsion": [0, 1, 2, 3], "centre": 1.0, "force_constant": 10.0}


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two shards of four atoms, with a bias."""
    path = tmp_path_factory.mktemp("dataset") / "data"
    about = About(
        molecule="four",
        molecule_hash="0" * 64,
        n_atoms=4,
        temperature=300.0,
        bias="umbrella",
        columns=("positions", "energy", "trajectory", "frame", "bias"),
    )
    rows = np.arange(5)
    with DatasetWriter(path, about) as writer:
        for number, split in enumerate(("train", "test")):
            columns = {
                "positions": np.ones((5, 4, 3)),
                "energy": rows + 0.5,
                "trajectory": np.full(5, number),
                "frame": rows,
                "bias": rows * 1.0,
            }
            writer.append(split, split, columns, source={"umbrella": [WINDOW]})
    return path


def use(folder: Path) -> None:
    """Open a dataset and look at all of it."""
    found = Dataset.open(folder)
    stored_windows(found.manifest)
    _ = found.n_left_out, found.evaluations, repr(found)
    for name in ("train", "test"):
        part = found.split(name)
        assert sum(len(run.index) for run in part.trajectories()) == len(part)
        load_labelled(part, 300.0, biased=True)
    found.verify()


def test_manifests(dataset: Path, fuzz, spoiled) -> None:
    path = dataset / "manifest.json"
    whole = path.read_bytes()

    def read(content: bytes) -> None:
        path.write_bytes(content)
        use(dataset)

    try:
        fuzz(read, whole, spoiled["json"](json.loads(whole)), 150)
    finally:
        path.write_bytes(whole)


def test_shard_files(dataset: Path, fuzz, spoiled) -> None:
    path = dataset / SHARD
    whole = path.read_bytes()

    def read(content: bytes) -> None:
        # With the right number of bytes the header is looked at too.
        path.write_bytes(content[: len(whole)].ljust(len(whole), b"\0"))
        use(dataset)

    try:
        fuzz(read, whole, spoiled["binary"](whole), 100)
    finally:
        path.write_bytes(whole)
