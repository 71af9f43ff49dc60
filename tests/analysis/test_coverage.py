"""Intervals of 95 % hold the truth in about 95 of 100 cases: averages, populations, free energies, profiles."""

import math
from collections.abc import Callable
from functools import cache
from statistics import NormalDist

import pytest
import torch

from boltzkit.analysis import Observable, average, bootstrap, profile, reweight
from boltzkit.analysis.analyse import state_results
from boltzkit.analysis.states import State, within
from boltzkit.ensemble import Ensemble
from boltzkit.randomness import generator

REPEATS, N = 400, 400
ALLOWED = range(int(0.9 * REPEATS), int(0.98 * REPEATS) + 1)
"""Binomial(400, 0.95) falls below with probability 3e-5 and above with 1e-3."""

# The proposal and the target are mixtures of two Gaussians at ±1.5.
Q, P = (0.5, 1.0), (0.7, 0.8)
X = Observable("x", "nm", False, lambda x: x)
ANGLE = Observable("angle", "rad", True, lambda x: x)


def density(x, share, width):
    parts = [(share, -1.5), (1 - share, 1.5)]
    return torch.logsumexp(
        torch.stack([-0.5 * ((x - m) / width) ** 2 + math.log(s / width) for s, m in parts]), 0
    ) - 0.5 * math.log(2 * math.pi)


def cdf(x):
    share, width = P
    return share * NormalDist(-1.5, width).cdf(x) + (1 - share) * NormalDist(1.5, width).cdf(x)


@cache
def mixture(seed, weighted=True, n=N):
    random = generator(seed, "mixture")
    side = torch.where(torch.rand(n, generator=random) < Q[0], -1.5, 1.5)
    x = side + Q[1] * torch.randn(n, generator=random, dtype=torch.float64)
    log_q = density(x, *Q)
    return Ensemble.from_samples(x, -density(x, *P) if weighted else -log_q, log_q)


LEFT, RIGHT = State("left", within(X, -9.0, 0.0)), State("right", within(X, 0.0, 9.0))


def bin_interval(ensemble):
    found = profile(ensemble, X, bins=20, span=(-4.0, 4.0)).cells
    return float(found.low[13]) - found.offset, float(found.high[13]) - found.offset


def ends(estimate):
    return estimate.low, estimate.high


CASES: dict[str, tuple[Callable[[Ensemble], tuple[float, float]], float]] = {
    "mean": (lambda e: ends(average(e, X)), 1.5 * (1 - 2 * P[0])),
    "population": (lambda e: ends(state_results(e, [LEFT, RIGHT])[1].population), 1 - cdf(0.0)),
    "free energy": (
        lambda e: ends(state_results(e, [LEFT, RIGHT])[1].free_energy),
        -math.log((1 - cdf(0.0)) / cdf(0.0)),
    ),
    "bin of a profile": (bin_interval, -math.log(cdf(1.6) - cdf(1.2))),
    # ⟨e^{ix}⟩ of the mixture points along arg(P e^{−1.5i} + (1 − P) e^{1.5i}).
    "circular mean": (
        lambda e: ends(average(e, ANGLE)),
        math.atan2((1 - 2 * P[0]) * math.sin(1.5), math.cos(1.5)),
    ),
    "free energy of a change": (
        lambda e: ends(reweight(e, lambda x: 0.5 * (x / 1.3) ** 2).free_energy),
        -math.log(1.3 * math.sqrt(2 * math.pi)),
    ),
}


def hits(interval, truth, weighted=True):
    found = (interval(mixture(seed, weighted)) for seed in range(REPEATS))
    return sum(low < truth < high for low, high in found)


@pytest.mark.parametrize("case", CASES)
def test_intervals_cover(case):
    assert hits(*CASES[case]) in ALLOWED


@pytest.mark.parametrize("case", [case for case in CASES if "change" not in case])
def test_ignoring_weights_does_not_cover(case):
    assert hits(*CASES[case], weighted=False) not in ALLOWED


def test_the_bootstrap_covers_a_median():
    truth = 0.0
    for _ in range(60):  # the median solves cdf = 1/2
        truth -= (cdf(truth) - 0.5) / max((cdf(truth + 1e-6) - cdf(truth - 1e-6)) / 2e-6, 0.05)

    def interval(ensemble):
        order = ensemble.x.argsort()
        ordered = ensemble.x[order]

        def median(share):
            return ordered[(share[:, order].cumsum(1) < 0.5).sum(1)]

        return ends(bootstrap(ensemble, median, repeats=150))

    assert cdf(truth) == pytest.approx(0.5)
    assert hits(interval, truth) in ALLOWED
    assert hits(interval, truth, weighted=False) not in ALLOWED


def rare_part(seed, n=20_000):
    """Return an ensemble of N(0, 1) that lacks most of a hundredth of its target, around 3.5, with rough weights."""
    random = generator(seed, "rare part")
    x = torch.randn(n, generator=random, dtype=torch.float64)
    rare = math.log(0.01 / 0.7) - 0.5 * ((x - 3.5) / 0.7) ** 2
    log_p = torch.logaddexp(math.log(0.99) - 0.5 * x**2, rare) - 0.5 * math.log(2 * math.pi)
    noise = 0.6 * torch.randn(n, generator=random, dtype=torch.float64) - 0.18  # of mean one in the weights
    return Ensemble.from_samples(x, -log_p - noise, -0.5 * x**2 - 0.5 * math.log(2 * math.pi))


def test_an_uncertain_ess_does_not_mean_intervals_that_are_too_small():
    """Where a heavy weight has come up, averages have wide intervals; where none has, they are too small."""
    held: dict[bool, list[bool]] = {True: [], False: []}
    for seed in range(150):
        ensemble = rare_part(seed)
        ess = ensemble.reweighting.ess
        low, high = ends(average(ensemble, X))
        held[ess.standard_error > 0.1 * ess.value].append(low < 0.035 < high)
    assert len(held[True]) > 20
    assert sum(held[True]) >= 0.9 * len(held[True])
    assert sum(held[False]) < 0.9 * len(held[False])
