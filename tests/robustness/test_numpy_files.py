"""Arrays of unknown origin: samples, energies and trajectories as .npy and .npz; pickles and bombs among them."""

import io
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st

from boltzkit.data.arrays import read_samples
from boltzkit.data.bias import bias_from_file
from boltzkit.data.given_energies import read_energies
from boltzkit.data.trajectory_files import open_trajectory
from boltzkit.energy import TargetConfig, build_target

GMM = build_target(TargetConfig())


def samples(path: Path) -> None:
    assert read_samples(path, GMM).shape[1:] == GMM.event_shape


def trajectory(path: Path) -> None:
    with open_trajectory(path) as found:
        assert found.read(0, min(found.n_frames, 2)).shape[1:] == (found.n_atoms, 3)


READERS: dict[str, tuple[Callable[[Path], Any], tuple[int, ...], str]] = {
    "samples.npy": (samples, (6, *GMM.event_shape), ""),
    "samples.npz": (samples, (6, *GMM.event_shape), "x"),
    "energies.npy": (read_energies, (6,), ""),
    "bias.npy": (lambda path: bias_from_file(path, 300.0), (6,), ""),
    "trajectory.npy": (trajectory, (6, 4, 3), ""),
    "trajectory.npz": (trajectory, (6, 4, 3), "positions"),
}


def npy(header: str | bytes, content: bytes = b"\0" * 96, version: tuple[int, int] = (1, 0)) -> bytes:
    """Return a .npy file with any header."""
    text = header.encode() if isinstance(header, str) else header
    length = struct.pack("<H" if version == (1, 0) else "<I", len(text) + 1)
    return b"\x93NUMPY" + bytes(version) + length + text + b"\n" + content


def header(shape: str, descr: str = "'<f8'", order: str = "False") -> str:
    return f"{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}, }}"


def saved(array: Any, name: str, compressed: bool = False) -> bytes:
    buffer = io.BytesIO()
    if name:
        (np.savez_compressed if compressed else np.savez)(buffer, **{name: array})
    else:
        np.save(buffer, array)
    return buffer.getvalue()


def archive(name: str, content: bytes, method: int = zipfile.ZIP_DEFLATED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as file:
        file.writestr(f"{name}.npy", content)
    return buffer.getvalue()


SHAPES = (
    *(
        "(10**12,)",
        "(1000000000000,)",
        "(1000000000000, 2)",
        "(6, -1)",
        "(-6, 2)",
        "(0,)",
        "(0, 2)",
        "()",
        "6",
        "None",
    ),
    *(
        "(4294967296, 4294967296)",
        "(9223372036854775807, 9223372036854775807, 3)",
        "(1000000000000, 0, 3)",
        "(True,)",
    ),
    *(
        "('6', 2)",
        "(6.0, 2)",
        "[6, 2]",
        "(6," * 40,
        "-" * 5000 + "1",
        "(" * 300,
        "{6, 2}",
        "(9" + "9" * 5000 + ",)",
    ),
)
FORMATS = (
    *(
        "'O'",
        "'|O'",
        "'<U1000000000'",
        "'V1000000000'",
        "'<M8[ns]'",
        "'<c16'",
        "'?'",
        "'>f8'",
        "'<f2'",
        "'<f16'",
    ),
    *(
        "[('a', 'O')]",
        "[('a', '<f8', (1000000, 1000000))]",
        "{'a': 1}",
        "None",
        "1",
        "'i4,O'",
        "()",
        "[[]]",
        "''",
    ),
    *(
        "__import__('os').system('false')",
        "'<f8' if 1 else 2",
        "lambda: 0",
        "'\\x00'",
        "[('a', [('b', [('c', 'O')])])]",
    ),
)
HEADERS = st.one_of(
    st.builds(header, st.sampled_from(SHAPES), st.just("'<f8'"), st.sampled_from(("False", "True", "7"))),
    st.builds(header, st.sampled_from(("(6,)", "(6, 2)", "(6, 4, 3)", "(0,)")), st.sampled_from(FORMATS)),
    st.sampled_from(
        ("", "{", "{}", "\0", "1", "{'descr': 1}", "\\", "'''", "  x\n y", "{[]: 1}", "𝟙", "'" * 9000)
    ),
)
FILES = st.builds(npy, HEADERS, st.sampled_from((b"", b"\0" * 48, b"\0" * 96, b"\0" * 576)))
ODD = FILES | st.builds(npy, HEADERS, version=st.sampled_from(((2, 0), (3, 0), (9, 9))))


@pytest.mark.parametrize("name", READERS)
def test_spoiled_arrays(name: str, fuzz, spoiled, tmp_path: Path) -> None:
    reader, shape, array = READERS[name]
    path = tmp_path / name
    whole = saved(np.ones(shape), array, compressed=True)

    def read(content: bytes) -> None:
        path.write_bytes(content)
        reader(path)

    odd = st.builds(archive, st.just(array), ODD, st.sampled_from((0, 8, 12, 14))) if array else ODD
    fuzz(read, whole, st.one_of(spoiled["binary"](whole), odd), 70)


@pytest.mark.parametrize("name", [name for name in READERS if name.endswith("npy")])
def test_headers_of_absurd_length(name: str, refusal, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(b"\x93NUMPY\x02\x00" + struct.pack("<I", 2**32 - 1) + b"{}")
    assert "absurdly long" in refusal(lambda: READERS[name][0](path))


@pytest.mark.parametrize("name", [name for name in READERS if name.endswith("npz")])
@pytest.mark.parametrize("kind", ["claimed by the directory", "claimed by the header", "packed zeros"])
def test_bombs_are_refused_before_memory_is_taken(name: str, kind: str, refusal, tmp_path: Path) -> None:
    reader, shape, array = READERS[name]
    size = 10**11
    content = npy(header(str((size // (8 * int(np.prod(shape[1:]))), *shape[1:]))))
    data = bytearray(
        archive(array, content, zipfile.ZIP_STORED if kind.startswith("claimed") else zipfile.ZIP_DEFLATED)
    )
    if kind == "claimed by the directory":
        place = data.rfind(b"PK\x01\x02")
        data[place + 24 : place + 28] = struct.pack("<I", 4_000_000_000)
        data[place + 10 : place + 12] = struct.pack("<H", zipfile.ZIP_DEFLATED)
    path = tmp_path / name
    path.write_bytes(data)
    if kind == "packed zeros":
        rows = (1 << 29) // (8 * int(np.prod(shape[1:])))
        with (
            zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as file,
            file.open(f"{array}.npy", "w") as entry,
        ):
            entry.write(npy(header(str((rows, *shape[1:]))), b""))
            for _ in range(1 << 7):
                entry.write(bytes(1 << 22))
    sentence = refusal(lambda: reader(path))
    assert "unpack" in sentence or "claims" in sentence


def test_an_archive_of_honest_size_is_read(tmp_path: Path) -> None:
    path = tmp_path / "x.npz"
    for compressed in (False, True):
        path.write_bytes(saved(np.zeros((50_000, *GMM.event_shape)), "x", compressed))
        samples(path)


class Mark:
    """An object whose pickle writes a file when it is read."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        return Path.write_text, (self.path, "ran")


@pytest.mark.parametrize("name", READERS)
def test_pickles_are_not_run(name: str, refusal, tmp_path: Path) -> None:
    reader, shape, array = READERS[name]
    path, mark = tmp_path / name, tmp_path / "mark"
    content = np.empty(shape, dtype=object)
    content.fill(Mark(mark))
    buffer = io.BytesIO()
    np.save(buffer, content, allow_pickle=True)
    pickle = buffer.getvalue()
    path.write_bytes(archive(array, pickle) if array else pickle)
    assert "could run code" in refusal(lambda: reader(path))
    # Only the pickle, under a name that promises an array.
    bare = pickle[pickle.index(b"\n") + 1 :]
    path.write_bytes(archive(array, bare) if array else bare)
    assert refusal(lambda: reader(path))
    assert not mark.exists()
    np.load(io.BytesIO(pickle), allow_pickle=True)  # control: the pickle does run where it is trusted
    assert mark.read_text() == "ran"
