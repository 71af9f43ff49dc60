"""Batches from disk: the same samples and labels as in memory, reduced at the target's temperature."""

import numpy as np
import pytest
import torch

from boltzkit.data import Dataset, DatasetWriter, EpochBatches, StoredBatches, load_labelled
from boltzkit.energy.constants import BOLTZMANN
from boltzkit.errors import UserError

KT = BOLTZMANN * 300.0
SIZE = 103


@pytest.fixture(scope="module")
def dataset(tmp_path_factory, describe, numbered):
    """103 samples in three shards, with forces."""
    path = tmp_path_factory.mktemp("stored")
    about = describe(columns=("positions", "energy", "trajectory", "frame", "forces"))
    with DatasetWriter(path, about) as writer:
        for first, n in ((0, 40), (40, 3), (43, 60)):
            content = numbered(first, n, trajectory=first)
            writer.append(str(first), "train", content | {"forces": -content["positions"]})
    return Dataset.open(path).split("train")


def numbers(batch):
    """Return the numbers that the samples of a batch carry."""
    return (batch.energy.double() * KT).round().int()


def test_a_small_dataset_is_loaded_with_its_labels(dataset):
    data = load_labelled(dataset, 300.0, gradients=True)
    assert data.size == SIZE
    torch.testing.assert_close(data.energy, torch.arange(SIZE, dtype=torch.float64) / KT)
    assert data.x.shape == (SIZE, 2, 3)
    torch.testing.assert_close(data.gradient, data.x / KT, rtol=1e-6, atol=0)


def test_fewer_samples_are_drawn_by_the_seed(dataset):
    draws = [load_labelled(dataset, 300.0, 20, seed=seed).energy.tolist() for seed in (0, 0, 1)]
    assert draws[0] == draws[1] != draws[2]
    assert len(set(draws[0])) == 20
    with pytest.raises(UserError, match="has 103 samples there, not 104"):
        load_labelled(dataset, 300.0, 104)


# The smallest window holds one batch; the largest, all samples.
@pytest.mark.parametrize("window", [1, 1000, 1 << 20])
@pytest.mark.parametrize("batch", [8, 25, 103])
def test_every_sample_once_per_epoch_with_its_labels(dataset, window, batch):
    batches = StoredBatches(dataset, batch, (0,), 300.0, gradients=True, window_bytes=window)
    per_epoch = SIZE // batch
    epochs = []
    for epoch in range(2):
        drawn = [batches(epoch * per_epoch + i) for i in range(per_epoch)]
        seen = torch.cat([numbers(b) for b in drawn]).tolist()
        assert len(set(seen)) == len(seen) == per_epoch * batch
        assert set(seen) <= set(range(SIZE))
        for b in drawn:
            assert b.x.dtype == b.energy.dtype == torch.float32
            torch.testing.assert_close(b.x[:, 0, 0], 10.0 * numbers(b).float())
            torch.testing.assert_close(b.gradient, b.x / KT)
        epochs.append(seen)
    assert epochs[0] != epochs[1]


def test_what_is_skipped_changes_from_epoch_to_epoch(dataset):
    batches = StoredBatches(dataset, 50, (0,), 300.0, window_bytes=1)
    skipped = [set(range(SIZE)) - {*numbers(batches(2 * e)).tolist(), *numbers(batches(2 * e + 1)).tolist()}
               for e in range(4)]  # fmt: skip
    assert all(len(left) == 3 for left in skipped)
    assert len({frozenset(left) for left in skipped}) > 1


def test_a_batch_follows_from_the_step_alone(dataset):
    forwards, backwards = (StoredBatches(dataset, 8, (3,), 300.0, window_bytes=1000) for _ in range(2))
    there = [numbers(forwards(step)).tolist() for step in range(30)]
    back = [numbers(backwards(step)).tolist() for step in reversed(range(30))][::-1]
    assert there == back
    # Control: another seed gives other batches.
    other = StoredBatches(dataset, 8, (4,), 300.0, window_bytes=1000)
    assert there != [numbers(other(step)).tolist() for step in range(30)]


def test_replicas_share_samples_and_have_their_own_order(dataset):
    together = StoredBatches(dataset, 10, (5, 6, 5), 300.0, batched=True, gradients=True)
    for step in (0, 11):
        batch = together(step)
        assert batch.x.shape == batch.gradient.shape == (3, 10, 2, 3)
        for replica, seed in enumerate((5, 6, 5)):
            alone = StoredBatches(dataset, 10, (seed,), 300.0)(step)
            assert torch.equal(batch.energy[replica], alone.energy)
        assert not torch.equal(batch.energy[0], batch.energy[1])


def test_it_stands_in_for_epoch_batches(dataset):
    """Same call, same shapes, same precision as the batches of a training that loads all."""
    memory = EpochBatches(load_labelled(dataset, 300.0).to("cpu", torch.float32), 10, (0,))(3)
    disk = StoredBatches(dataset, 10, (0,), 300.0)(3)
    for a, b in ((memory.x, disk.x), (memory.energy, disk.energy)):
        assert (a.shape, a.dtype, a.device) == (b.shape, b.dtype, b.device)
    assert disk.gradient is disk.weights is disk.log_prob is None


@pytest.mark.parametrize("batch", [0, 104])
def test_a_batch_that_does_not_fit_is_refused(dataset, batch):
    with pytest.raises(UserError, match=f"batch of {batch} does not fit 103 samples"):
        StoredBatches(dataset, batch, (0,), 300.0)


def test_samples_of_another_temperature_are_refused(dataset):
    for make in (lambda t: load_labelled(dataset, t), lambda t: StoredBatches(dataset, 5, (0,), t)):
        with pytest.raises(UserError, match="was sampled at 300 K, but the target is at 310 K"):
            make(310.0)


def test_biased_samples_do_not_pass_for_unbiased_ones(tmp_path, describe, numbered):
    about = describe(bias="pulled along φ", columns=("positions", "energy", "trajectory", "frame", "bias"))
    with DatasetWriter(tmp_path, about) as writer:
        writer.append("a", "train", numbered(0, 5) | {"bias": np.arange(5.0)})
    dataset = Dataset.open(tmp_path)
    with pytest.raises(UserError, match=r"is biased \(pulled along φ\)"):
        load_labelled(dataset, 300.0)
    assert load_labelled(dataset, 300.0, biased=True).size == 5
    assert dataset.column("bias", [4, 1]).tolist() == [4.0, 1.0]
    with pytest.raises(UserError, match="stores no forces, which path gradients need"):
        load_labelled(dataset, 300.0, biased=True, gradients=True)
