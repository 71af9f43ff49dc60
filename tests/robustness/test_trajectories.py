"""DCD trajectories."""

import struct
from pathlib import Path

import mdtraj
import numpy as np
import pytest
from hypothesis import strategies as st

from boltzkit.data.dcd import DcdFile
from boltzkit.data.trajectory_files import open_trajectory


@pytest.fixture(scope="module")
def dcd(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """Five frames of four atoms, written by mdtraj."""
    path = tmp_path_factory.mktemp("dcd") / "a.dcd"
    with mdtraj.formats.DCDTrajectoryFile(str(path), "w") as file:
        file.write(np.random.default_rng(0).normal(size=(5, 4, 3)).astype(np.float32))
    return path.read_bytes()


def use(path: Path) -> None:
    with open_trajectory(path) as found:
        for start in range(0, min(found.n_frames, 100)):
            assert found.read(start, start + 1).shape == (1, found.n_atoms, 3)


def test_damaged_files(dcd: bytes, fuzz, spoiled, tmp_path: Path) -> None:
    path = tmp_path / "a.dcd"

    def read(content: bytes) -> None:
        path.write_bytes(content)
        use(path)

    fuzz(read, dcd, spoiled["binary"](dcd), 100)


def test_numbers_of_the_header(dcd: bytes, fuzz, tmp_path: Path) -> None:
    path = tmp_path / "a.dcd"
    # Every number before the first frame: lengths of records, counts and flags.
    places = st.sampled_from(range(0, len(dcd) - 5 * (3 * (8 + 16)), 4))
    numbers = st.sampled_from((-1, 0, 1, 2, 3, 83, 85, 2**20, 2**28, 2**29, 2**31 - 1, -(2**31)))

    def read(changes: dict[int, int]) -> None:
        data = bytearray(dcd)
        for place, number in changes.items():
            data[place : place + 4] = struct.pack("<i", number)
        path.write_bytes(data)
        use(path)
        DcdFile(path)

    fuzz(read, {}, st.dictionaries(places, numbers, min_size=1, max_size=3), 100)


@pytest.mark.parametrize("n_atoms", [-1, 0, 2**29, 2**31 - 1])
def test_absurd_numbers_of_atoms(n_atoms: int, dcd: bytes, refusal, tmp_path: Path) -> None:
    path = tmp_path / "a.dcd"
    record = struct.pack("<iii", 4, 4, 4)
    place = dcd.rindex(record, 0, len(dcd) - 5 * 3 * (8 + 16))
    path.write_bytes(dcd[: place + 4] + struct.pack("<i", n_atoms) + dcd[place + 8 :])
    assert refusal(lambda: DcdFile(path))
    path.write_bytes(dcd[:place] + struct.pack("<ii", 0, 0) + dcd[place + 12 :])
    assert refusal(lambda: DcdFile(path))
