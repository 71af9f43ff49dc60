"""The next intermediate target against closed forms on Gaussians; each check with a control that must fail."""

import math
from itertools import pairwise

import pytest
import torch

from boltzkit.errors import UserError
from boltzkit.method.annealing.config import AnnealingConfig
from boltzkit.method.annealing.path import (
    choose,
    divergence,
    entropy_bound,
    scheduled_temperature,
    trust_region,
)
from boltzkit.randomness import generator

N = 200_000


def gaussian_flow(scale: float, n: int = N) -> tuple[torch.Tensor, torch.Tensor]:
    """Return samples of a normal distribution of this width, and their log-density."""
    x = scale * torch.randn(n, generator=generator(0, "flow"), dtype=torch.float64)
    return x, -0.5 * (x / scale) ** 2 - math.log(scale * math.sqrt(2 * math.pi))


def kl_of_widths(new: float, old: float) -> float:
    """KL(N(0, new²) ‖ N(0, old²))."""
    ratio = (new / old) ** 2
    return 0.5 * (ratio - 1 - math.log(ratio))


def width(exponent: float, flow: float, target: float, temperature: float = 1.0) -> float:
    """The width of q^(1−λ) p^(λ/T) for normal distributions."""
    return ((1 - exponent) / flow**2 + exponent / (temperature * target**2)) ** -0.5


@pytest.mark.parametrize("bound", [0.05, 0.3])
def test_trust_region_meets_its_bound_exactly(bound):
    x, log_prob = gaussian_flow(1.0)
    exponent = trust_region(-0.5 * (x / 0.3) ** 2 - log_prob, bound)
    assert kl_of_widths(width(exponent, 1.0, 0.3), 1.0) == pytest.approx(bound, rel=0.02)
    # Control: a tenth more of the way breaks it.
    assert kl_of_widths(width(1.1 * exponent, 1.0, 0.3), 1.0) > 1.04 * bound


def test_trust_region_goes_all_the_way_when_it_may():
    x, log_prob = gaussian_flow(1.0)
    assert trust_region(-0.5 * (x / 0.9) ** 2 - log_prob, 0.3) == 1.0


def test_trust_region_takes_steps_as_small_as_needed():
    # A start that is far from any equilibrium: energies of a million, spread as widely.
    energy = torch.logspace(0, 8, 1000, dtype=torch.float64)
    exponent = trust_region(-energy, 0.3)
    assert 0 < exponent < 1e-4
    assert divergence(-exponent * energy) == pytest.approx(0.3, abs=1e-6)


def test_divergence_of_equal_weights_is_zero_and_of_one_sample_is_log_n():
    assert divergence(torch.full((1000,), -5.0)) == pytest.approx(0.0, abs=1e-12)
    log_weight = torch.full((1000,), -torch.inf)
    log_weight[3] = 0.0
    assert divergence(log_weight) == pytest.approx(math.log(1000))


def test_temperature_falls_geometrically_and_stays():
    config = AnnealingConfig(stages=100, hottest=4.0, cooling=0.5)
    found = [scheduled_temperature(config, stage) for stage in range(100)]
    assert found[0] == 4.0
    assert found[49:] == [1.0] * 51
    ratios = [b / a for a, b in pairwise(found[:49])]
    assert max(ratios) - min(ratios) < 1e-12
    assert scheduled_temperature(config.model_copy(update={"path": "geometric"}), 0) == 1.0


def test_entropy_bound_binds_alone_when_the_trust_region_is_wide():
    # Losing entropy log(old/new) of a normal distribution; the target is far narrower.
    x, log_prob = gaussian_flow(1.0)
    found = entropy_bound(0.5 * (x / 0.05) ** 2, log_prob, trust=50.0, entropy=0.2)
    new = width(found.exponent, 1.0, 0.05, found.temperature)
    assert -math.log(new) == pytest.approx(0.2, rel=0.03)
    assert found.temperature > 2.0


def test_trust_binds_alone_when_entropy_may_fall():
    x, log_prob = gaussian_flow(1.0)
    energy = 0.5 * (x / 0.3) ** 2
    found = entropy_bound(energy, log_prob, trust=0.1, entropy=50.0)
    assert found.temperature == pytest.approx(1.0, abs=1e-3)
    assert found.exponent == pytest.approx(trust_region(-energy - log_prob, 0.1), rel=0.02)


def test_no_bound_takes_the_target_itself():
    x, log_prob = gaussian_flow(1.0)
    config = AnnealingConfig(stages=4, trust=None, hottest=1.0)
    assert choose(config, 0, 0.5 * (x / 0.01) ** 2, log_prob)[:2] == (1.0, 1.0)


def test_hopeless_energies_are_said():
    with pytest.raises(UserError, match="finite energy"):
        choose(AnnealingConfig(), 0, torch.ones(1), torch.ones(1))
