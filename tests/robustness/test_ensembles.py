"""Ensemble folders: weighted samples, their summary, and the molecule beside them."""

import io
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import strategies as st

from boltzkit.ensemble import Ensemble, Subject

ODD_ARRAYS = (
    *(np.zeros(0), np.zeros(()), np.zeros(20), np.full(20, np.nan), np.full(20, -np.inf), np.zeros((20, 1))),
    *(np.zeros(20, ">f8"), np.zeros(20, "<i4"), np.zeros(20, "?"), np.zeros(20, "<c16"), np.zeros(20, "<f2")),
    *(
        np.zeros(20, np.longdouble),
        np.array(["x"] * 20),
        np.zeros(20, [("a", "<f8")]),
        np.zeros(20, "<M8[s]"),
    ),
)


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory, dipeptide) -> dict[str, Path]:
    """An ensemble of numbers, and one of a molecule."""
    folders = {}
    for name, x in {"plain": torch.randn(20, 2), "molecule": dipeptide.positions.repeat(20, 1, 1)}.items():
        subject = Subject(dipeptide, 300.0) if name == "molecule" else None
        energy = torch.linspace(0, 1, 20).double()
        folders[name] = tmp_path_factory.mktemp(name) / "ensemble"
        Ensemble.from_samples(x, energy, -energy, 20, name, 5.0, subject).save(folders[name])
    return folders


@pytest.fixture
def folders(saved: dict[str, Path], tmp_path: Path) -> dict[str, Path]:
    return {name: shutil.copytree(path, tmp_path / name) for name, path in saved.items()}


def use(folder: Path) -> None:
    found = Ensemble.load(folder)
    assert len(found.x) == found.n
    found.summary()
    found._repr_html_()


@pytest.mark.parametrize(("kind", "examples"), [("plain", 120), ("molecule", 25)])
def test_summaries(kind: str, examples: int, folders: dict[str, Path], fuzz, spoiled) -> None:
    path = folders[kind] / "summary.json"
    whole = path.read_bytes()

    def read(content: bytes) -> None:
        path.write_bytes(content)
        use(folders[kind])

    fuzz(read, whole, spoiled["json"](json.loads(whole)), examples)


def test_samples(folders: dict[str, Path], fuzz, spoiled) -> None:
    path = folders["plain"] / "samples.npz"
    whole = path.read_bytes()
    with np.load(path, allow_pickle=False) as file:
        arrays = dict(file)

    def read(content: bytes) -> None:
        path.write_bytes(content)
        use(folders["plain"])

    def with_odd_arrays(changes: dict[str, int | None]) -> bytes:
        odd = arrays | {name: ODD_ARRAYS[n] for name, n in changes.items() if n is not None}
        buffer = io.BytesIO()
        np.savez(buffer, **{name: value for name, value in odd.items() if changes.get(name, 0) is not None})
        return buffer.getvalue()

    numbers = st.sampled_from((None, *range(len(ODD_ARRAYS))))
    odd = st.dictionaries(st.sampled_from((*arrays, "more")), numbers, min_size=1, max_size=3).map(
        with_odd_arrays
    )
    fuzz(read, whole, spoiled["binary"](whole) | odd, 150)


def test_molecules_beside_samples(folders: dict[str, Path], fuzz, spoiled) -> None:
    folder = folders["molecule"]
    whole = (folder / "topology.pdb").read_bytes()

    def read(content: bytes) -> None:
        (folder / "topology.pdb").write_bytes(content)
        use(folder)

    fuzz(read, whole, spoiled["text"](whole), 25)
