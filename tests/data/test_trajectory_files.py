"""Files as other programs write them, read back in nm; whatever is cut off, empty or foreign is refused."""

import numpy as np
import pytest
from openmm import app, unit

from boltzkit.data.trajectory_files import FORMATS, open_trajectory
from boltzkit.errors import UserError

N = 25


def write_dcd(path, x, topology):
    with path.open("wb") as file:
        writer = app.DCDFile(file, topology, 0.001)
        for frame in x:
            writer.writeModel(frame * unit.nanometer)


def write_boxed_dcd(path, x, topology):
    with path.open("wb") as file:
        writer = app.DCDFile(file, topology, 0.001)
        for frame in x:
            writer.writeModel(frame * unit.nanometer, unitCellDimensions=[3, 3, 3] * unit.nanometer)


def write_xtc(path, x, topology):
    writer = app.XTCFile(str(path), topology, 0.001)
    for frame in x:
        writer.writeModel(frame * unit.nanometer)


def write_trr(path, x, topology):
    formats = pytest.importorskip("mdtraj.formats")
    with formats.TRRTrajectoryFile(str(path), "w") as file:
        file.write(x)


def write_h5(path, x, topology, units="nanometers", scale=1.0):
    h5py = pytest.importorskip("h5py")
    with h5py.File(path, "w") as file:
        file["coordinates"] = x * scale
        file["coordinates"].attrs["units"] = np.bytes_(units)


def write_h5_in_angstrom(path, x, topology):
    write_h5(path, x, topology, "angstroms", 10.0)


def write_npy(path, x, topology):
    np.save(path, x.astype(np.float64))


def write_npz(path, x, topology):
    np.savez(path, positions=x)


WRITERS = {
    "a.dcd": (write_dcd, 1e-6),
    "boxed.dcd": (write_boxed_dcd, 1e-6),
    "a.xtc": (write_xtc, 5.1e-4),
    "a.trr": (write_trr, 0.0),
    "a.h5": (write_h5, 0.0),
    "angstrom.h5": (write_h5_in_angstrom, 1e-6),
    "a.npy": (write_npy, 0.0),
    "a.npz": (write_npz, 0.0),
}


@pytest.mark.parametrize("name", WRITERS)
def test_frames_come_back_in_nm_from_anywhere(name, tmp_path, frames, dipeptide):
    write, error = WRITERS[name]
    x = frames(N)
    write(tmp_path / name, x, dipeptide.topology)
    with open_trajectory(tmp_path / name) as file:
        assert (file.n_frames, file.n_atoms) == (N, dipeptide.n_atoms)
        for start, stop in ((10, 25), (0, 3), (3, 10)):
            read = file.read(start, stop)
            assert read.dtype == np.float32
            np.testing.assert_allclose(read, x[start:stop], rtol=0, atol=error)


def test_every_format_is_tested():
    assert {f".{name.split('.')[1]}" for name in WRITERS} | {".hdf5"} == set(FORMATS)


@pytest.mark.parametrize("name", ["a.dcd", "boxed.dcd", "a.xtc", "a.trr", "a.h5", "a.npy", "a.npz"])
@pytest.mark.parametrize("share", [0.0, 0.001, 0.02, 0.66, 0.997])
def test_a_cut_file_is_refused(name, share, tmp_path, frames, dipeptide):
    path = tmp_path / name
    WRITERS[name][0](path, frames(N), dipeptide.topology)
    content = path.read_bytes()
    path.write_bytes(content[: int(share * len(content))])
    with pytest.raises(UserError, match=name) as caught, open_trajectory(path) as file:
        file.read(0, file.n_frames)
    assert str(caught.value).count("\n") == 0


@pytest.mark.parametrize("name", ["a.dcd", "a.xtc", "a.trr"])
def test_a_simulation_that_was_killed_is_cut_at_its_last_frame(name, tmp_path, frames, dipeptide):
    path = tmp_path / name
    WRITERS[name][0](path, frames(N), dipeptide.topology)
    content = path.read_bytes()
    path.write_bytes(content[:-30])
    with pytest.raises(UserError, match=rf"cut off.* {N - 1} complete frames"), open_trajectory(path):
        pass


def test_big_endian_dcd(tmp_path, frames, dipeptide):
    x = frames(3)
    write_dcd(tmp_path / "a.dcd", x, dipeptide.topology)
    content = bytearray((tmp_path / "a.dcd").read_bytes())
    # Everything is four bytes wide but the words CORD and the titles, which lie in records of their own.
    swapped = np.frombuffer(bytes(content), "<i4").astype(">i4").tobytes()
    titles = 92 + 4
    end = titles + int(np.frombuffer(bytes(content[92:96]), "<i4")[0])
    swapped = content[4:8].join([swapped[:4], swapped[8:]])
    number = np.frombuffer(bytes(content[titles : titles + 4]), "<i4").astype(">i4").tobytes()
    swapped = swapped[:titles] + number + bytes(content[titles + 4 : end]) + swapped[end:]
    (tmp_path / "b.dcd").write_bytes(swapped)
    with open_trajectory(tmp_path / "b.dcd") as file:
        np.testing.assert_allclose(file.read(0, 3), x, rtol=0, atol=1e-6)


def test_a_damaged_dcd_is_noticed(tmp_path, frames, dipeptide):
    path = tmp_path / "a.dcd"
    write_dcd(path, frames(N), dipeptide.topology)
    content = bytearray(path.read_bytes())
    content[-4:] = bytes(4)
    path.write_bytes(content)
    with open_trajectory(path) as file:
        file.read(0, N - 1)
        with pytest.raises(UserError, match="damaged between frames 20 and 24"):
            file.read(20, N)


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("a.npy", np.zeros((0, 22, 3)), "holds no frames"),
        (
            "a.npy",
            np.zeros((5, 66)),
            r"holds float64 of shape \(5, 66\), not numbers of shape \(frames, atoms, 3\)",
        ),
        ("a.npy", np.zeros((5, 22, 3), dtype=complex), "holds complex128"),
        ("a.npy", np.array([{"a": 1}], dtype=object), "could not be read as a .npy file"),
        ("a.csv", np.zeros(3), r"trajectories are not read from '\.csv' files"),
    ],
)
def test_other_arrays_are_refused(name, content, sentence, tmp_path):
    with (tmp_path / name).open("wb") as file:
        np.save(file, content, allow_pickle=True)
    with pytest.raises(UserError, match=sentence), open_trajectory(tmp_path / name):
        pass


@pytest.mark.parametrize("name", ["a.dcd", "a.xtc", "a.trr", "a.h5", "a.npy", "a.npz"])
def test_missing_empty_and_foreign_files_are_refused(name, tmp_path):
    path = tmp_path / name
    with pytest.raises(UserError, match=f"There is no file .*{name}"), open_trajectory(path):
        pass
    for content in (b"", b"REMARK this is a PDB file\n" * 20):
        path.write_bytes(content)
        with pytest.raises(UserError, match=name), open_trajectory(path):
            pass


def test_an_archive_says_what_it_has_instead(tmp_path):
    np.savez(tmp_path / "a.npz", coordinates=np.zeros((2, 2, 3)))
    with pytest.raises(UserError, match="no array 'positions'; it has: coordinates"), \
            open_trajectory(tmp_path / "a.npz"):  # fmt: skip
        pass


def test_a_missing_library_is_named(tmp_path, monkeypatch):
    (tmp_path / "a.xtc").write_bytes(b"x")
    monkeypatch.setitem(__import__("sys").modules, "mdtraj.formats", None)
    with pytest.raises(UserError, match=r"needs mdtraj: pip install mdtraj"), \
            open_trajectory(tmp_path / "a.xtc"):  # fmt: skip
        pass
