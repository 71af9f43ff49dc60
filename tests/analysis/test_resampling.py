"""Systematic resampling: counts, unbiasedness, and that failed samples never come up."""

import math

import pytest
import torch

from boltzkit.analysis import systematic
from boltzkit.errors import UserError
from boltzkit.randomness import generator
from boltzkit.weights import LogWeights


def weights(values):
    values = torch.tensor(values, dtype=torch.float64)
    return LogWeights(values, {"failed": int(values.isneginf().sum())} if values.isneginf().any() else {})


def test_each_comes_up_as_often_as_it_weighs():
    log_w = torch.randn(500, generator=generator(0, "w"), dtype=torch.float64)
    share = torch.softmax(log_w, 0)
    for seed in range(20):
        count = torch.bincount(
            systematic(weights(log_w.tolist()), 2_000, generator(seed, "c")), minlength=500
        )
        assert count.sum() == 2_000
        assert ((count - 2_000 * share).abs() < 1).all()


def test_it_is_unbiased():
    share = torch.tensor([0.01, 0.04, 0.95], dtype=torch.float64)
    rows = [systematic(weights(share.log().tolist()), 3, generator(seed, "u")) for seed in range(4_000)]
    found = torch.bincount(torch.cat(rows), minlength=3) / 12_000
    assert float(found[0]) == pytest.approx(0.01, abs=4 * math.sqrt(0.03 * 0.97 / 4_000) / 3)
    assert float(found[1]) == pytest.approx(0.04, abs=4 * math.sqrt(0.12 * 0.88 / 4_000) / 3)


@pytest.mark.parametrize("values", [[-math.inf, 0.0, -math.inf], [0.0, -math.inf, 0.0, -math.inf]])
def test_failed_samples_never_come_up(values):
    for seed in range(50):
        rows = systematic(weights(values), 7, generator(seed, "f"))
        assert all(values[row] == 0 for row in rows.tolist())


def test_nothing_is_refused():
    with pytest.raises(UserError, match="At least one"):
        systematic(weights([0.0]), 0)
    with pytest.raises(UserError, match="None of the 2 samples"):
        systematic(weights([-math.inf, -math.inf]), 3)
