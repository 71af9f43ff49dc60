"""Samples from NumPy files: read in double precision; everything else is refused in one sentence."""

import numpy as np
import pytest
import torch

from boltzkit.data import read_samples
from boltzkit.energy import Harmonic
from boltzkit.errors import UserError

TARGET = Harmonic(torch.eye(2))
CONTENT = np.arange(6.0).reshape(3, 2)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "float16", ">f8"])
@pytest.mark.parametrize("suffix", ["npy", "npz"])
def test_reads_npy_and_npz(suffix, dtype, tmp_path):
    path = tmp_path / f"data.{suffix}"
    if suffix == "npy":
        np.save(path, CONTENT.astype(dtype))
    else:
        np.savez(path, x=CONTENT.astype(dtype), other=np.zeros(3))
    samples = read_samples(path, TARGET)
    assert samples.dtype == torch.float64
    assert torch.equal(samples, torch.from_numpy(CONTENT))


def test_reads_any_memory_order(tmp_path):
    np.save(tmp_path / "f.npy", np.asfortranarray(CONTENT))
    assert torch.equal(read_samples(tmp_path / "f.npy", TARGET), torch.from_numpy(CONTENT))


def objects(path):
    with open(path, "wb") as file:
        np.save(file, np.array([{"a": 1}], dtype=object), allow_pickle=True)


def objects_in_npz(path):
    with open(path, "wb") as file:
        np.savez(file, x=np.array([{"a": 1}], dtype=object), allow_pickle=True)


def array_of(value):
    def write(path):
        with open(path, "wb") as file:
            np.save(file, value)

    return write


def cut_npz(path):
    with open(path, "wb") as file:
        np.savez(file, x=CONTENT)
    path.write_bytes(path.read_bytes()[:150])


def damaged_npz(path):
    with open(path, "wb") as file:
        np.savez_compressed(file, x=np.random.default_rng(0).normal(size=(50, 2)))
    content = bytearray(path.read_bytes())
    content[200:260] = bytes(60)
    path.write_bytes(content)


def other_npz(path):
    with open(path, "wb") as file:
        np.savez(file, y=CONTENT)


BAD = {
    "missing": (lambda path: None, "no data file"),
    "folder": (lambda path: path.mkdir(), "no data file"),
    "empty": (lambda path: path.write_bytes(b""), "not a NumPy"),
    "text": (lambda path: path.write_text("1.0 2.0\n"), "not a NumPy"),
    "cut-npy": (
        lambda path: (array_of(CONTENT)(path), path.write_bytes(path.read_bytes()[:-9])),
        "not a NumPy",
    ),
    "cut-npz": (cut_npz, "not a NumPy"),
    "damaged-npz": (damaged_npz, "not a NumPy"),
    "objects": (objects, "not a NumPy"),
    "objects-in-npz": (objects_in_npz, "not a NumPy"),
    "no-x": (other_npz, "no array 'x'; it has: y"),
    "wrong-dim": (
        array_of(np.zeros((3, 5))),
        r"shape \(3, 5\), but harmonic takes numbers of shape \(n, 2\)",
    ),
    "scalar": (array_of(np.float64(1.0)), r"shape \(\)"),
    "flat": (array_of(np.zeros(4)), r"shape \(4,\)"),
    "words": (array_of(np.array([["a", "b"]])), "holds <U1"),
    "complex": (array_of(np.zeros((3, 2), dtype=complex)), "holds complex128"),
}


@pytest.mark.parametrize("name", BAD)
def test_everything_else_is_refused(name, tmp_path):
    write, sentence = BAD[name]
    path = tmp_path / "data.npy"
    write(path)
    with pytest.raises(UserError, match=sentence) as caught:
        read_samples(path, TARGET)
    assert str(path) in str(caught.value)


def test_no_pickle_is_ever_loaded(tmp_path):
    class Trap:
        def __reduce__(self):
            return (open, (str(tmp_path / "sprung"), "w"))

    objects_with_trap = np.array([Trap()], dtype=object)
    with open(tmp_path / "trap.npy", "wb") as file:
        np.save(file, objects_with_trap, allow_pickle=True)
    with pytest.raises(UserError, match="not a NumPy"):
        read_samples(tmp_path / "trap.npy", TARGET)
    assert not (tmp_path / "sprung").exists()
