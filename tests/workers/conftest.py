"""A trajectory and its labels computed in this process, which workers must give bit for bit."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from boltzkit.data import About, DatasetWriter, Labeller
from boltzkit.molecule import Molecule
from boltzkit.workers import Workers

FRAMES, SHARD = 2_000, 200


def content(folder: Path) -> dict[str, bytes]:
    """Return every file of a dataset, manifest included."""
    files = [path for path in folder.rglob("*") if path.is_file() and path.name != ".lock"]
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


@pytest.fixture(scope="session")
def dipeptide() -> Molecule:
    return Molecule.from_sequence("ACE-ALA-NME")


@pytest.fixture(scope="session")
def trajectory(dipeptide: Molecule, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Frames of which some fail."""
    noise = np.random.default_rng(0).normal(size=(FRAMES, dipeptide.n_atoms, 3))
    frames = (dipeptide.positions.numpy() + 0.002 * noise).astype(np.float32)
    frames[3, 5, 1] = np.nan
    frames[950, 7] += 1.0
    path = tmp_path_factory.mktemp("trajectory") / "a.npy"
    np.save(path, frames)
    return path


@pytest.fixture(scope="session")
def label(dipeptide: Molecule, trajectory: Path) -> Callable[..., dict[str, bytes]]:
    """Label the trajectory into a folder and return the dataset's files."""

    def run(
        out: Path, workers: Workers | None, watch: Callable[[DatasetWriter], None], **options: Any
    ) -> Any:
        with DatasetWriter(out, About.of(dipeptide, 300.0, optional=("forces",))) as writer:
            append = writer.append

            def watched(*arguments: Any, **named: Any) -> None:
                append(*arguments, **named)
                watch(writer)

            writer.append = watched  # type: ignore[method-assign]
            Labeller(dipeptide, writer, SHARD, workers, **options).label(trajectory)
        return content(out)

    return run


@pytest.fixture(scope="session")
def labels(label: Any, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The labels that this process computes."""
    return dict(label(tmp_path_factory.mktemp("labels") / "here", None, lambda writer: None))
