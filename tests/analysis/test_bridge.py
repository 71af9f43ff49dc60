"""log Z from both sides: exact values, coverage, and a mode that the flow's samples alone do not see."""

import math

import pytest
import torch

from boltzkit.analysis import bridge
from boltzkit.ensemble import Ensemble
from boltzkit.errors import UserError
from boltzkit.randomness import generator

LOG_Z = 2.5
REPEATS = 400
ALLOWED = range(360, 393)


def normal(x, mean=0.0, width=1.0):
    return -0.5 * ((x - mean) / width) ** 2 - math.log(width * math.sqrt(2 * math.pi))


def two_modes(x):
    """log p of 0.75 N(0, 1) + 0.25 N(12, 1)."""
    return torch.logaddexp(normal(x) + math.log(0.75), normal(x, 12.0) + math.log(0.25))


def gaussian_pair(seed, n=400, m=200, width=0.8):
    """q = N(0, 1) with n samples, p = N(0.5, width) with m, and Z as above."""
    random = generator(seed, "bridge")
    x = torch.randn(n, generator=random, dtype=torch.float64)
    data = 0.5 + width * torch.randn(m, generator=random, dtype=torch.float64)
    ensemble = Ensemble.from_samples(x, -normal(x, 0.5, width) - LOG_Z, normal(x))
    return ensemble, normal(data), -normal(data, 0.5, width) - LOG_Z


def test_the_interval_covers():
    found = [bridge(*gaussian_pair(seed)) for seed in range(REPEATS)]
    assert sum(b.log_z.low < LOG_Z < b.log_z.high for b in found) in ALLOWED
    assert sum(b.log_z.low < LOG_Z + 0.2 < b.log_z.high for b in found) not in ALLOWED
    values = torch.tensor([b.log_z.value for b in found])
    assert float(values.mean()) == pytest.approx(LOG_Z, abs=4 * float(values.std()) / math.sqrt(REPEATS))


def test_data_help_where_the_flow_is_too_narrow():
    pairs = [gaussian_pair(seed, width=1.25) for seed in range(REPEATS)]
    both = torch.tensor([bridge(*pair).log_z.value for pair in pairs])
    alone = torch.tensor([pair[0].weights.log_mean() for pair in pairs])
    assert both.std() < 0.7 * alone.std()


def test_equal_distributions_overlap_fully():
    ensemble, log_prob, energy = gaussian_pair(0)
    same = Ensemble.from_samples(ensemble.x, -ensemble.log_prob - LOG_Z, ensemble.log_prob)
    found = bridge(same, log_prob, -log_prob - LOG_Z)
    assert found.log_z.value == pytest.approx(LOG_Z)
    assert found.overlap == pytest.approx(1)
    assert found.log_z.standard_error < 1e-9
    assert bridge(ensemble, log_prob, energy).overlap < 0.95


@pytest.mark.parametrize("support", [math.inf, 6.0])
def test_a_mode_that_the_flow_misses_is_counted(support):
    """The flow knows the first mode only, as a tail or not at all; three quarters of Z are its own."""
    random = generator(1, "modes")
    x = torch.randn(20_000, generator=random, dtype=torch.float64)
    ensemble = Ensemble.from_samples(x, -two_modes(x) - LOG_Z, normal(x))
    data = torch.randn(20_000, generator=random, dtype=torch.float64)
    data[torch.rand(20_000, generator=random) < 0.25] += 12
    log_prob = normal(data).masked_fill(data > support, -math.inf)
    found = bridge(ensemble, log_prob, -two_modes(data) - LOG_Z)
    assert abs(found.log_z.value - LOG_Z) < 4 * found.log_z.standard_error
    assert found.n_outside == (0 if support == math.inf else int((data > 6).sum()))
    missed = 1 - math.exp(ensemble.reweighting.log_z - found.log_z.value)
    assert missed == pytest.approx(0.25, abs=0.02)


def test_failed_samples_are_counted():
    ensemble, log_prob, energy = gaussian_pair(3, n=20_000, m=20_000)
    failing = ensemble.energy.masked_fill(ensemble.x > 0.5, math.nan)
    cut = Ensemble.from_samples(ensemble.x, failing, ensemble.log_prob)
    kept = energy.masked_fill(energy > 5, math.nan)
    found = bridge(cut, log_prob, kept)
    assert (found.n_flow, found.n_failed) == (20_000, int((ensemble.x > 0.5).sum()))
    assert found.n_left_out == int((energy > 5).sum())
    assert found.n_data + found.n_left_out == 20_000


def test_correlated_data_widen_the_interval():
    ensemble, log_prob, energy = gaussian_pair(0, m=100)
    repeated, block = torch.arange(100).repeat_interleave(10), torch.arange(100).repeat_interleave(10)
    blind = bridge(ensemble, log_prob[repeated], energy[repeated])
    told = bridge(ensemble, log_prob[repeated], energy[repeated], block)
    assert told.log_z.value == blind.log_z.value
    assert told.log_z.standard_error > 1.2 * blind.log_z.standard_error


def test_nothing_in_common_is_refused():
    ensemble, log_prob, energy = gaussian_pair(0)
    with pytest.raises(UserError, match="no density on any of the 200 data"):
        bridge(ensemble, torch.full_like(log_prob, -math.inf), energy)
    with pytest.raises(UserError, match="samples on both sides"):
        bridge(ensemble, log_prob, torch.full_like(energy, math.nan))
