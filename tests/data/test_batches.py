"""Epochs: every sample once, and a batch that follows from the step alone."""

import pytest
import torch

from boltzkit.data import EpochBatches, LabelledData
from boltzkit.errors import UserError


def numbered(n, replicas=None):
    """Samples that carry their own index, and their replica, in the coordinates."""
    index = torch.arange(n, dtype=torch.float64)
    x = torch.stack([index, torch.zeros(n, dtype=torch.float64)], dim=-1)
    if replicas is not None:
        x = torch.stack([x + torch.tensor([0.0, r]) for r in range(replicas)])
    return LabelledData(x, 10 * x[..., 0], gradient=-x)


@pytest.mark.parametrize(("n", "batch"), [(12, 4), (13, 4), (7, 7)])
def test_every_sample_once_per_epoch(n, batch):
    batches = EpochBatches(numbered(n), batch, (3,))
    per_epoch = n // batch
    epochs = []
    for epoch in range(3):
        seen = torch.cat([batches(epoch * per_epoch + i).x[:, 0] for i in range(per_epoch)]).tolist()
        assert len(seen) == len(set(seen)) == per_epoch * batch
        assert set(seen) <= set(range(n))
        epochs.append(seen)
    # Shuffled anew each time.
    assert epochs[0] != epochs[1] != epochs[2]
    assert n % batch or set(epochs[0]) == set(range(n))


def test_labels_stay_with_their_samples():
    batch = EpochBatches(numbered(12), 5, (0,))(1)
    assert torch.equal(batch.energy, 10 * batch.x[:, 0])
    assert torch.equal(batch.gradient, -batch.x)
    assert batch.log_prob is None
    assert batch.weights is None


def test_a_batch_follows_from_the_step_alone():
    forwards, backwards = (EpochBatches(numbered(12), 4, (3,)) for _ in range(2))
    there = [forwards(step).x for step in range(9)]
    back = [backwards(step).x for step in reversed(range(9))][::-1]
    assert all(torch.equal(a, b) for a, b in zip(there, back, strict=True))
    # Control: another seed gives other batches.
    other = EpochBatches(numbered(12), 4, (4,))
    assert not all(torch.equal(a, other(step).x) for step, a in enumerate(there))


def test_replicas_have_their_own_order_and_their_own_data():
    together = EpochBatches(numbered(12, replicas=3), 4, (5, 6, 5))
    for step in range(7):
        batch = together(step)
        assert batch.x.shape == (3, 4, 2)
        assert batch.energy.shape == (3, 4)
        assert (batch.x[:, :, 1] == torch.arange(3).unsqueeze(-1)).all()
        assert torch.equal(batch.gradient, -batch.x)
        for replica, seed in enumerate((5, 6, 5)):
            alone = EpochBatches(numbered(12), 4, (seed,))(step)
            assert torch.equal(batch.x[replica, :, 0], alone.x[:, 0])
    assert not torch.equal(together(0).x[0, :, 0], together(0).x[1, :, 0])


@pytest.mark.parametrize("batch", [0, 13])
def test_a_batch_that_does_not_fit_is_refused(batch):
    with pytest.raises(UserError, match=f"batch of {batch} does not fit 12 samples"):
        EpochBatches(numbered(12), batch, (0,))
