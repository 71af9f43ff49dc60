"""Histograms on the torus: density, divergence and the floor that chance sets."""

import math

import pytest
import torch

from boltzkit.ensemble.torus import ramachandran_divergence, torus_histogram
from boltzkit.molecule import Backbone, find_molecule


def von_mises(n: int, seed: int, centre: float = 0.0) -> torch.Tensor:
    torch.manual_seed(seed)
    return torch.distributions.VonMises(centre, 4.0).sample((n, 1, 2)).double()


def test_a_density_has_integral_one_and_wraps():
    angles = torch.tensor([[math.pi, -math.pi], [math.pi - 1e-9, 3.0], [torch.nan, 0.0]], dtype=torch.float64)
    density = torus_histogram(angles, bins=10)
    assert float(density.sum()) * (2 * math.pi / 10) ** 2 == pytest.approx(1.0)
    assert int((density > 0).sum()) == 2


def test_the_floor_is_what_chance_gives():
    same = [ramachandran_divergence(von_mises(40_000, s), von_mises(400_000, 100 + s)) for s in range(4)]
    # Bins that neither sample reached are unknown to the floor, which is therefore a little low.
    assert same[0].floor < sum(d.value for d in same) / 4 < 1.6 * same[0].floor


def test_a_shifted_model_is_far_above_the_floor():
    off = ramachandran_divergence(von_mises(20_000, 0), von_mises(20_000, 1, centre=0.5))
    assert off.value > 2 * off.floor


def test_weights_bring_a_shifted_model_back():
    data, model = von_mises(50_000, 0), von_mises(200_000, 1, centre=0.3)
    log_weight = 4 * (torch.cos(model) - torch.cos(model - 0.3)).sum((1, 2))
    raw = ramachandran_divergence(data, model)
    reweighted = ramachandran_divergence(data, model, log_weight.exp())
    assert raw.value > 3 * raw.floor
    assert reweighted.value < 1.6 * reweighted.floor


def test_backbone_of_the_named_molecules():
    dipeptide = Backbone.of(find_molecule("alanine-dipeptide").topology)
    assert dipeptide.names == ("ALA2",)
    assert dipeptide.phi.tolist() == [[4, 6, 8, 14]]
    assert dipeptide.psi.tolist() == [[6, 8, 14, 16]]
    assert len(dipeptide.omega) == 2
    hexapeptide = find_molecule("alanine-hexapeptide")
    backbone = Backbone.of(hexapeptide.topology)
    assert len(backbone.phi) == 5
    assert len(backbone.omega) == 6
    x = hexapeptide.positions.expand(3, -1, -1)
    assert backbone.angles(x).shape == (3, 5, 2)
    assert not backbone.cis(x).any()
