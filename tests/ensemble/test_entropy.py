"""Entropy, likelihood gap and forward ESS of a harmonic well against a wider Gaussian, all known exactly."""

import math

import torch

from boltzkit.ensemble import forward_reweighting, likelihood_gap, target_entropy
from boltzkit.weights import LogWeights

WIDTH = 1.15
"""Of the model; the target is a unit Gaussian in three dimensions with log Z = (3/2) log 2π."""
DIM = 3
LOG_Z = 0.5 * DIM * math.log(2 * math.pi)
ENTROPY = LOG_Z + 0.5 * DIM
KL = DIM * (math.log(WIDTH) + 0.5 / WIDTH**2 - 0.5)


def sample(n: int, seed: int, width: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Return log q of the model and the energy at samples of a given width."""
    x = width * torch.randn(n, DIM, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    squared = x.square().sum(-1)
    return -0.5 * squared / WIDTH**2 - DIM * math.log(WIDTH) - LOG_Z, 0.5 * squared


def test_entropy_and_its_error():
    covered = shifted = 0
    for seed in range(200):
        log_prob, energy = sample(2000, seed, WIDTH)
        found = target_entropy(LogWeights.from_samples(log_prob, energy), energy)
        covered += found.low < ENTROPY < found.high
        # The control: without log Z's share of the error the intervals would be about another number.
        shifted += found.low < ENTROPY + 0.1 < found.high
    assert 0.88 < covered / 200 <= 0.99
    assert shifted / 200 < 0.6


def test_a_weightless_sample_does_not_spoil_the_entropy():
    log_prob, energy = sample(5000, 0, WIDTH)
    energy[0] = torch.nan
    found = target_entropy(LogWeights.from_samples(log_prob, energy), energy)
    assert abs(found.value - ENTROPY) < 4 * found.standard_error


def test_the_gap_is_the_divergence_and_less_noisy_than_the_likelihood():
    covered = 0
    for seed in range(200):
        log_prob, energy = sample(500, seed, 1.0)
        found = likelihood_gap(log_prob, energy, LOG_Z)
        covered += found.low < KL < found.high
    assert 0.88 < covered / 200 <= 0.99
    assert found.standard_error < 0.5 * float(log_prob.std()) / math.sqrt(500)
    # An uncertain log Z widens the interval; a wrong one is seen.
    assert likelihood_gap(log_prob, energy, LOG_Z, 1.0).standard_error > 1
    wrong = likelihood_gap(log_prob, energy, LOG_Z + 0.5)
    assert not wrong.low < KL < wrong.high


def test_the_forward_ess_covers():
    """1/E_p[p/q] with p/q = σ³ exp(−x²(1 − σ⁻²)/2)."""
    exact = (math.sqrt(2 - WIDTH**-2) / WIDTH) ** DIM
    covered = 0
    for seed in range(200):
        weights = LogWeights.from_samples(*sample(1000, seed, 1.0))
        found = forward_reweighting(weights, torch.arange(1000))
        covered += found.low < exact < found.high
    assert 0.88 < covered / 200 <= 0.99
    assert not found.low < exact - 0.2 < found.high
