"""DCD, XTC and TRR trajectories."""

import struct
from pathlib import Path

import mdtraj
import numpy as np
import pytest
from hypothesis import strategies as st

from boltzkit.data.dcd import DcdFile
from boltzkit.data.trajectory_files import _refuse_deadly, open_trajectory


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


GROMACS = {".xtc": mdtraj.formats.XTCTrajectoryFile, ".trr": mdtraj.formats.TRRTrajectoryFile}


@pytest.mark.parametrize("ending", GROMACS)
def test_damaged_gromacs_files(ending: str, fuzz, spoiled, tmp_path: Path) -> None:
    path = tmp_path / f"a{ending}"
    with GROMACS[ending](str(path), "w") as file:
        file.write(np.random.default_rng(0).normal(size=(5, 22, 3)).astype(np.float32))
    whole = path.read_bytes()

    def read(content: bytes) -> None:
        path.unlink(missing_ok=True)
        path.write_bytes(content)
        use(path)

    fuzz(read, whole, spoiled["binary"](whole), 5)  # each is read by a process of its own first


@pytest.mark.parametrize("name", ["deadly.xtc", "deadly.trr"])
def test_files_that_kill_their_reader(name: str, refusal) -> None:
    """Found by spoiling sound files at random: mdtraj's C code dies over these, or overwrites memory."""
    said = refusal(lambda: use(Path(__file__).parent / "deadly" / name))
    assert any(words in said for words in ("is damaged", "could not be read", "is cut off"))


def test_a_file_that_a_process_failed_over_is_not_read_here(refusal, monkeypatch, tmp_path: Path) -> None:
    """The reader that fails in good order may have overwritten memory first; this process must not follow it."""
    path = tmp_path / "a.xtc"
    with mdtraj.formats.XTCTrajectoryFile(str(path), "w") as file:
        file.write(np.zeros((1, 3, 3), dtype=np.float32))
    script = tmp_path / "reader.py"
    script.write_text("print('RuntimeError: XTC read error')\nraise SystemExit(1)")
    monkeypatch.setattr("boltzkit.data.gromacs_reader.__file__", str(script))
    _refuse_deadly.cache_clear()
    assert refusal(lambda: use(path)).endswith("a.xtc could not be read as a .xtc file: XTC read error.")


def test_a_reader_that_hangs_or_dies_is_no_danger(refusal, monkeypatch, tmp_path: Path) -> None:
    path = tmp_path / "a.xtc"
    with mdtraj.formats.XTCTrajectoryFile(str(path), "w") as file:
        file.write(np.zeros((1, 3, 3), dtype=np.float32))
    assert refusal(lambda: use(path)) is None  # control
    script = tmp_path / "reader.py"
    monkeypatch.setattr("boltzkit.data.gromacs_reader.__file__", str(script))
    script.write_text("import os\nos.abort()")
    _refuse_deadly.cache_clear()
    assert "kills the library" in refusal(lambda: use(path))
    script.write_text("print('MemoryError: too much')\nraise SystemExit(1)")
    assert "more memory" in refusal(lambda: use(path))
