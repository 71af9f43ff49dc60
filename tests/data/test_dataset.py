"""Reading: any samples in any order, splits that never mix, time order, and damage that is named."""

import json

import numpy as np
import pytest

from boltzkit.data import About, Dataset, DatasetWriter
from boltzkit.errors import UserError
from boltzkit.molecule import Molecule


def test_samples_come_in_the_order_asked_for(folder):
    dataset = Dataset.open(folder)
    assert len(dataset) == 19
    index = np.random.default_rng(0).integers(0, 19, 200)
    assert dataset.energy(index).tolist() == index.tolist()
    assert dataset.positions(index)[:, 1, 2].tolist() == (10 * index).tolist()
    assert dataset.positions(index).dtype == np.float32
    assert dataset.energy([]).shape == (0,)
    assert dataset.positions([]).shape == (0, 2, 3)


def test_splits_are_views_with_numbers_of_their_own(folder):
    dataset = Dataset.open(folder)
    parts = {name: dataset.split(name) for name in ("train", "validation", "test")}
    energies = {name: set(part.energy(range(len(part))).tolist()) for name, part in parts.items()}
    assert energies["train"] == {*range(5), *range(9, 16)}
    assert energies["validation"] == set(range(5, 9))
    assert energies["test"] == set(range(16, 19))
    assert parts["validation"].energy([0, 3]).tolist() == [5, 8]
    with pytest.raises(UserError, match=r"There is no split 'valid'\. Did you mean 'validation'\?"):
        dataset.split("valid")


def test_trajectories_are_in_time_order_whatever_the_order_of_shards(folder):
    found = {t.number: t for t in Dataset.open(folder).split("train").trajectories()}
    assert set(found) == {0}
    assert found[0].frame.tolist() == [*range(7), *range(10, 15)]
    dataset = Dataset.open(folder)
    energies = {t.number: dataset.energy(t.index).tolist() for t in dataset.trajectories()}
    assert energies == {0: [*range(9, 16), *range(5)], 1: [5, 6, 7, 8], 3: [16, 17, 18]}


@pytest.mark.parametrize("index", [[-1], [19], [0.5], [[1, 2]]])
def test_numbers_that_are_not_there_are_refused(folder, index):
    with pytest.raises(UserError, match="Sample numbers"):
        Dataset.open(folder).energy(index)


def test_a_column_that_is_not_stored_is_refused(folder):
    with pytest.raises(UserError, match="stores no 'forces'"):
        Dataset.open(folder).column("forces", [0])


def test_opening_reads_no_samples(folder, monkeypatch):
    dataset = Dataset.open(folder)
    touched = []
    monkeypatch.setattr("mmap.mmap", lambda *_, **__: touched.append(1))
    assert len(dataset.split("train")) == 12
    assert touched == []


def test_reading_everywhere_keeps_little_resident(folder, monkeypatch):
    released = []
    monkeypatch.setattr("boltzkit.data.shard_files._BUDGET", 10)
    monkeypatch.setattr(
        "boltzkit.data.shard_files.ShardFile.release", lambda file: released.append(file.stored.name)
    )
    dataset = Dataset.open(folder)
    assert dataset.energy(range(19)).tolist() == list(range(19))
    assert len(released) == 4


def test_released_pages_are_read_again(folder, monkeypatch):
    monkeypatch.setattr("boltzkit.data.shard_files._BUDGET", 10)
    dataset = Dataset.open(folder)
    for _ in range(3):
        assert dataset.energy(range(19)).tolist() == list(range(19))


def cut(path):
    path.write_bytes(path.read_bytes()[:-8])


def flip(path):
    content = bytearray(path.read_bytes())
    content[-3] ^= 1
    path.write_bytes(content)


def reshape(path):
    size = path.stat().st_size
    array = np.load(path)
    np.save(path, array.reshape(-1, 1))
    assert path.stat().st_size == size


@pytest.mark.parametrize(
    ("spoil", "sentence"),
    [
        (cut, r"shards/000002\.energy\.npy has 176 of 184 bytes"),
        (lambda path: path.unlink(), r"shards/000002\.energy\.npy is missing"),
        (reshape, r"shards/000002\.energy\.npy holds float64 of shape \(7, 1\), not float64 of shape \(7,\)"),
        (lambda path: path.write_bytes(bytes(184)), r"shards/000002\.energy\.npy has no readable header"),
    ],
)
def test_opening_finds_what_a_look_can_find(folder, spoil, sentence):
    spoil(folder / "shards/000002.energy.npy")
    with pytest.raises(UserError, match=sentence):
        Dataset.open(folder)


def test_opening_names_every_damaged_file(folder):
    cut(folder / "shards/000000.frame.npy")
    (folder / "shards/000003.positions.npy").unlink()
    with pytest.raises(
        UserError, match=r"000000\.frame\.npy has .* bytes; shards/000003\.positions\.npy is missing"
    ):
        Dataset.open(folder)


def test_verifying_names_every_altered_file(folder):
    dataset = Dataset.open(folder)
    assert dataset.verify().problems == ()
    assert dataset.verify().n_files == 16
    flip(folder / "shards/000000.energy.npy")
    flip(folder / "shards/000002.positions.npy")
    found = Dataset.open(folder).verify()
    assert found.problems == (
        "shards/000000.energy.npy has another checksum",
        "shards/000002.positions.npy has another checksum",
    )
    with pytest.raises(
        UserError, match=r"damaged: shards/000000\.energy\.npy has another checksum; shards/000002"
    ):
        found.require()


def bad_json(path):
    path.write_text("{")


def future(path):
    path.write_text(json.dumps(json.loads(path.read_text()) | {"format": 2}))


def counts(path):
    path.write_text(
        json.dumps(json.loads(path.read_text()) | {"counts": {"train": 1, "validation": 0, "test": 0}})
    )


def outside(path):
    path.write_text(path.read_text().replace("shards/000000.energy.npy", "../000000.energy.npy"))


@pytest.mark.parametrize(
    ("spoil", "sentence"),
    [
        (lambda path: path.unlink(), "is not a dataset: it has no manifest.json"),
        (bad_json, "not valid JSON"),
        (future, "has format 2, but this boltzkit reads format 1"),
        (counts, "its counts are not those of its shards"),
        (outside, "'../000000.energy.npy' is not valid"),
    ],
)
def test_a_bad_manifest_is_refused(folder, spoil, sentence):
    spoil(folder / "manifest.json")
    with pytest.raises(UserError, match=sentence):
        Dataset.open(folder)


def test_a_dataset_knows_its_molecule_and_its_energies(tmp_path, dipeptide, frames, potential):
    x = frames(40)
    energy = potential(x)
    content = {"positions": x, "energy": energy, "trajectory": np.zeros(40, int), "frame": np.arange(40)}
    wrong = content | {"energy": energy + 0.1 * (np.arange(40) == 7), "trajectory": np.ones(40, int)}
    with DatasetWriter(tmp_path, About.of(dipeptide, 300.0)) as writer:
        writer.append("right", "train", content)
        assert Dataset.open(tmp_path, dipeptide).verify(dipeptide).problems == ()
        writer.append("wrong", "train", wrong)
    found = Dataset.open(tmp_path, dipeptide).verify(dipeptide)
    assert found.n_energies == 80
    (problem,) = found.problems
    assert problem.startswith("shards/000001.energy.npy has 1 wrong energies of 80 looked at: row 7 says ")


def test_data_of_another_molecule_or_force_field_are_refused(tmp_path, dipeptide):
    with DatasetWriter(tmp_path, About.of(dipeptide, 300.0)):
        pass
    other = Molecule.from_sequence("ACE-ALA-NME", ("amber96.xml", "amber96_obc.xml"))
    with pytest.raises(UserError, match=r"holds ACE-ALA-NME \(22 atoms, hash .*\), not ACE-ALA-NME"):
        Dataset.open(tmp_path, other)
    assert len(Dataset.open(tmp_path, dipeptide)) == 0
