"""The paper's Propositions 1–3 on piecewise-constant densities, where normalisation is a sum."""

import pytest
import torch

from boltzkit.objective import Batch, ForwardKL, LogDispersion, Objective

BINS = 40
POINTS = torch.linspace(-3, 3, BINS, dtype=torch.float64)
WIDTH = 6 / BINS
ENERGY = POINTS**4 / 4 - POINTS**2 + 0.5 * POINTS + 1.7
DISPERSIONS = [LogDispersion(p) for p in (1.0, 1.5, 2.0, 3.0)] + [LogDispersion.huber(0.5)]
UNIFORM = torch.ones(BINS, dtype=torch.float64)
LEFT = (POINTS < -0.5).to(torch.float64)


def normalised(log_density):
    return log_density - torch.logsumexp(log_density, 0) - torch.log(torch.tensor(WIDTH, dtype=torch.float64))


TARGET = normalised(-ENERGY)


def deceiver():
    """A normalised q ≠ p that is proportional to p on the left and something else on the right."""
    left = LEFT.bool()
    density = torch.where(left, 0.4 * TARGET.exp(), 0.0)
    density[~left] = (1 - density.sum() * WIDTH) / (WIDTH * (~left).sum().item())
    return density.log()


@pytest.mark.parametrize("dispersion", DISPERSIONS)
@pytest.mark.parametrize("reference", [UNIFORM, 0.1 + LEFT])
def test_full_support_makes_a_divergence(dispersion, reference):
    assert dispersion(TARGET, ENERGY, reference).item() == pytest.approx(0.0, abs=1e-13)
    for i in range(0, BINS, 7):
        bump = torch.zeros_like(TARGET)
        bump[i] = 0.3
        assert dispersion(normalised(TARGET + bump), ENERGY, reference) > 1e-4
    # An unnormalised multiple is not seen: normalisation of q is what rules it out.
    assert dispersion(TARGET + 1.0, ENERGY, reference).item() == pytest.approx(0.0, abs=1e-13)


@pytest.mark.parametrize("dispersion", DISPERSIONS)
def test_without_full_support_it_is_none(dispersion):
    q = deceiver()
    assert (q.exp().sum() * WIDTH).item() == pytest.approx(1.0, abs=1e-12)
    assert (q - TARGET).abs().max() > 0.5
    assert dispersion(q, ENERGY, LEFT).item() == pytest.approx(0.0, abs=1e-13)
    # Control: on a reference with full support the same q is found out.
    assert dispersion(q, ENERGY, UNIFORM) > 0.1


@pytest.mark.parametrize("dispersion", DISPERSIONS)
def test_data_term_restores_the_optimum(dispersion, gaussian_flow):
    objective = Objective(ForwardKL(), dispersion, data_weight=0.3)
    unused = gaussian_flow(0.0, 1.0)

    def loss(log_prob):
        data = Batch(POINTS.unsqueeze(-1), ENERGY, weights=TARGET.exp(), log_prob=log_prob)
        reference = data.replace(weights=LEFT)
        return objective(unused, data, step=0, reference=reference).total.item()

    best = loss(TARGET)
    entropy = -(TARGET.exp() * TARGET).sum().item() * WIDTH
    assert best == pytest.approx(0.3 * entropy, abs=1e-12)
    assert loss(deceiver()) > best + 0.01
    draws = torch.randn(20, BINS, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    assert min(loss(normalised(TARGET + 0.1 * noise)) for noise in draws) > best
