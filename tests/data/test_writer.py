"""Shards are committed whole, once, in one split; whatever else is tried is refused in one sentence."""

import json

import numpy as np
import pytest

from boltzkit.data import Dataset, DatasetWriter, LeftOut
from boltzkit.errors import UserError


def listing(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_the_manifest_is_the_contract(folder):
    manifest = json.loads((folder / "manifest.json").read_text())
    assert manifest["format"] == 1
    assert manifest["about"]["temperature"] == 300.0
    assert manifest["units"]["positions"] == "nm"
    assert manifest["counts"] == {"train": 12, "validation": 4, "test": 3}
    shard = manifest["shards"][2]
    assert (shard["key"], shard["split"], shard["samples"]) == ("c", "train", 7)
    assert (shard["trajectories"], shard["frames"]) == ([[0, 0]], [0, 6])
    assert shard["files"]["energy"]["name"] == "shards/000002.energy.npy"
    names = [file["name"] for s in manifest["shards"] for file in s["files"].values()]
    assert listing(folder) == sorted([".lock", "manifest.json", *names])


def test_arrays_are_plain_npy_in_the_stated_precision(folder):
    types = {"positions": "float32", "energy": "float64", "trajectory": "int32", "frame": "int64"}
    for name, dtype in types.items():
        array = np.load(folder / f"shards/000001.{name}.npy", mmap_mode="r", allow_pickle=False)
        assert array.dtype == dtype
        assert len(array) == 4


def test_work_is_known_by_its_key(folder, describe, numbered):
    with DatasetWriter(folder, describe()) as writer:
        assert "a" in writer
        assert "e" not in writer
        assert writer.n_committed == 19
        assert writer.next_trajectory == 4
        writer.append("e", "train", numbered(19, 2, trajectory=4))
        assert "e" in writer
        assert writer.n_committed == 21
        with pytest.raises(UserError, match="already holds the shard 'e'"):
            writer.append("e", "train", numbered(30, 2, trajectory=5))
    assert len(Dataset.open(folder)) == 21


def test_leftovers_of_a_crash_are_removed_and_nothing_else(folder, describe):
    before = listing(folder)
    for name in (".000004.energy.npy.partial", "000004.positions.npy", "000009.frame.npy"):
        (folder / "shards" / name).write_bytes(b"half")
    (folder / ".manifest.json.partial").write_bytes(b"{")
    (folder / "shards" / "notes.txt").write_text("mine")
    assert len(Dataset.open(folder)) == 19
    with DatasetWriter(folder, describe()):
        pass
    assert listing(folder) == sorted([*before, "shards/notes.txt"])


def test_a_folder_killed_before_its_first_manifest_is_taken_up(tmp_path, describe):
    (tmp_path / "data" / "shards").mkdir(parents=True)
    (tmp_path / "data" / ".manifest.json.partial").write_bytes(b"{")
    with DatasetWriter(tmp_path / "data", describe()):
        pass
    assert len(Dataset.open(tmp_path / "data")) == 0


def test_a_first_attempt_without_samples_binds_nobody(tmp_path, describe):
    for digit in "01":
        with DatasetWriter(tmp_path, describe(molecule_hash=digit * 64)):
            pass
    assert Dataset.open(tmp_path).about.molecule_hash == "1" * 64


def test_one_writer_at_a_time(folder, describe):
    with DatasetWriter(folder, describe()):
        with pytest.raises(UserError, match=r"being written by another process \(number \d+\): wait"):
            DatasetWriter(folder, describe())
        assert len(Dataset.open(folder)) == 19
    with DatasetWriter(folder, describe()):
        pass


def test_a_foreign_folder_is_left_alone(tmp_path, describe):
    (tmp_path / "thesis.tex").write_text("")
    with pytest.raises(UserError, match="not empty and not a dataset"):
        DatasetWriter(tmp_path, describe())


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"molecule_hash": "1" * 64}, r"holds pair \(2 atoms, hash 00000000\), not pair \(hash 11111111\)"),
        ({"temperature": 310.0}, r"its temperature is 300\.0 and not 310\.0"),
        ({"bias": "umbrella"}, "its bias is None and not umbrella"),
        ({"columns": ("positions", "energy", "trajectory", "frame", "forces")}, "its columns is"),
    ],
)
def test_data_of_another_kind_are_refused(folder, describe, change, sentence):
    with pytest.raises(UserError, match=sentence):
        DatasetWriter(folder, describe(**change))


def test_a_trajectory_belongs_to_one_split(folder, describe, numbered):
    with DatasetWriter(folder, describe()) as writer:
        with pytest.raises(
            UserError, match="trajectory 1 belongs to validation already and cannot also go to train"
        ):
            writer.append("e", "train", numbered(19, 2, trajectory=1, start=90))
        # Control: more of the same trajectory in its own split is welcome.
        writer.append("e", "validation", numbered(19, 2, trajectory=1, start=90))


def test_a_manifest_that_mixes_splits_is_not_read(folder):
    path = folder / "manifest.json"
    content = json.loads(path.read_text())
    content["shards"][1]["trajectories"] = [[0, 0]]
    path.write_text(json.dumps(content))
    with pytest.raises(UserError, match="trajectory 0 is in both train and validation"):
        Dataset.open(folder)


def test_a_frame_is_stored_once(folder, describe, numbered):
    with DatasetWriter(folder, describe()) as writer:
        with pytest.raises(UserError, match="frame 12 of trajectory 0 is there more than once"):
            writer.append("e", "train", numbered(19, 5, trajectory=0, start=8) | {"frame": [7, 8, 9, 12, 15]})
        with pytest.raises(UserError, match="frame 3 of trajectory 9 is there more than once"):
            writer.append("e", "train", numbered(19, 2, trajectory=9) | {"frame": [3, 3]})
        writer.append("e", "train", numbered(19, 4, trajectory=0) | {"frame": [7, 8, 9, 15]})


def test_frames_that_failed_are_counted_and_keep_their_trajectory(folder, describe, numbered):
    failed = LeftOut(reason="the energy is not finite", trajectory=7, frames=((0, 4), (9, 9)))
    with DatasetWriter(folder, describe()) as writer:
        writer.append("e", "test", numbered(0, 0), left_out=[failed])
        assert writer.n_committed == 19
        assert writer.next_trajectory == 8
        assert "e" in writer
    dataset = Dataset.open(folder)
    assert dataset.n_left_out == 6
    assert dataset.manifest.shards[-1].left_out == (failed,)


def bad(name, row, value):
    def spoil(columns):
        array = np.array(columns[name])
        array[row] = value
        return columns | {name: array}

    return spoil


@pytest.mark.parametrize(
    ("spoil", "sentence"),
    [
        (bad("energy", 2, np.nan), "energy is not finite for 1 of 4 samples, the first in row 2"),
        (bad("positions", 1, np.inf), "positions is not finite for 1 of 4 samples, the first in row 1"),
        (bad("positions", 1, 1e300), "positions is not finite for 1 of 4"),
        (lambda c: c | {"energy": c["energy"][:3]}, r"energy has shape \(3,\), not \(4,\)"),
        (
            lambda c: c | {"positions": np.zeros((4, 3, 3))},
            r"positions has shape \(4, 3, 3\), not \(4, 2, 3\)",
        ),
        (lambda c: c | {"frame": c["frame"] + 0.5}, "frame must be whole numbers"),
        (
            lambda c: c | {"trajectory": c["trajectory"] + 2**40},
            "trajectory must be whole numbers that fit int32",
        ),
        (lambda c: c | {"forces": np.zeros((4, 2, 3))}, "but .* stores positions, energy, trajectory, frame"),
        (lambda c: {k: v for k, v in c.items() if k != "energy"}, "has positions, trajectory, frame, but"),
    ],
)
def test_bad_samples_are_refused(folder, describe, numbered, spoil, sentence):
    before = listing(folder)
    with DatasetWriter(folder, describe()) as writer, pytest.raises(UserError, match=sentence):
        writer.append("e", "train", spoil(numbered(19, 4, trajectory=5)))
    assert listing(folder) == before


def test_an_unknown_split_is_refused(folder, describe, numbered):
    with DatasetWriter(folder, describe()) as writer, pytest.raises(UserError, match="Did you mean 'train'"):
        writer.append("e", "trian", numbered(19, 4, trajectory=5))


def test_a_bias_energy_needs_a_description(describe):
    with pytest.raises(ValueError, match="need a description of the bias"):
        describe(columns=("positions", "energy", "trajectory", "frame", "bias"))
