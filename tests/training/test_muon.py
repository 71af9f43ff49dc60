"""Muon: orthogonal steps for hidden matrices, Adam for everything else, one state for both."""

import pytest
import torch
from torch import nn

from boltzkit.errors import UserError
from boltzkit.flow import (
    RealNVPConfig,
    SplineFlowConfig,
    TarFlowConfig,
    build_euclidean_spline_flow,
    build_realnvp,
    build_tarflow,
    hidden_weights,
)
from boltzkit.training import TrainingConfig
from boltzkit.training.muon import Muon, orthogonal
from boltzkit.training.optimiser import build_optimiser


@pytest.mark.parametrize("shape", [(6, 6), (9, 4), (3, 8), (2, 5, 7)])
def test_the_orthogonal_factor_is_the_one_of_the_decomposition(shape):
    torch.manual_seed(0)
    u, _, v = torch.linalg.svd(torch.randn(shape, dtype=torch.float64), full_matrices=False)
    stretch = torch.linspace(1, 0.05, min(shape[-2:]), dtype=torch.float64)
    found = orthogonal(u * stretch @ v)
    inner = u.mT @ found @ v.mT
    values = torch.diagonal(inner, dim1=-2, dim2=-1)
    assert torch.allclose(inner, torch.diag_embed(values), atol=1e-9)  # the same directions
    assert values.min() > 0.65
    assert values.max() < 1.25
    # The control: lengths that were 20 to 1 apart.
    assert values.max() / values.min() < 2 < stretch.max() / stretch.min()


def test_a_gradient_of_zero_moves_nothing():
    assert torch.equal(orthogonal(torch.zeros(3, 4)), torch.zeros(3, 4))


class Net(nn.Module):
    """Two layers; the first is hidden."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.first, self.last = nn.Linear(5, 7), nn.Linear(7, 3)

    def hidden_weights(self):
        return [self.first.weight]


def stepped(optimiser, steps=3):
    net = Net()
    kind = TrainingConfig(optimiser=optimiser, learning_rate=0.01)
    descent = build_optimiser(net, kind)
    x = torch.randn(20, 5, generator=torch.Generator().manual_seed(2))
    before = {name: value.clone() for name, value in net.state_dict().items()}
    for _ in range(steps):
        descent.zero_grad()
        net.last(torch.relu(net.first(x))).square().sum().backward()
        descent.step()
    return net, descent, before


def test_hidden_matrices_move_by_orthogonal_steps_as_large_as_adams():
    net, _, before = stepped("muon", steps=1)
    moved = net.first.weight - before["first.weight"]
    values = torch.linalg.svdvals(moved)
    assert values.max() / values.min() < 2
    assert moved.square().mean().sqrt().item() == pytest.approx(0.01 * 0.2, rel=0.3)
    # The control: Adam's first step has entries of one size and is nearly of rank one.
    net, _, before = stepped("adam", steps=1)
    values = torch.linalg.svdvals(net.first.weight - before["first.weight"])
    assert values.max() / values.min() > 2


def test_all_else_moves_as_under_adam():
    # One step: later ones see another first layer.
    ours, _, _ = stepped("muon", steps=1)
    adams, _, _ = stepped("adam", steps=1)
    for name in ("first.bias", "last.weight", "last.bias"):
        assert torch.equal(ours.get_parameter(name), adams.get_parameter(name))
    assert not torch.equal(ours.first.weight, adams.first.weight)


def test_weight_decay_shrinks_matrices_apart_from_their_steps():
    net = Net()
    start = net.first.weight.detach().clone()
    descent = Muon(net.parameters(), net.hidden_weights(), rate=0.1, betas=(0.9, 0.999), weight_decay=0.5)
    net.first.weight.grad = torch.zeros_like(start)
    descent.step()
    assert torch.allclose(net.first.weight, 0.95 * start)


def test_flows_name_their_hidden_matrices():
    spline = build_euclidean_spline_flow(SplineFlowConfig(pairs=1, hidden=(8, 8), bins=4), dim=2, seed=0)
    shapes = {tuple(weight.shape) for weight in hidden_weights(spline)}
    assert (8, 8) in shapes
    assert all(out == 8 for out, _ in shapes)  # none that end a network
    tarflow = build_tarflow(
        TarFlowConfig(blocks=2, layers=1, channels=8, heads=2), n_atoms=3, seed=0, scale=1.0
    )
    assert len(hidden_weights(tarflow)) == 2 * 4


def test_flows_without_plain_matrices_are_refused():
    flow = build_realnvp(RealNVPConfig(layers=2, hidden=(8, 8)), dim=2, seeds=(0,), batched=False)
    with pytest.raises(UserError, match="no plain matrices for muon"):
        build_optimiser(flow, TrainingConfig(optimiser="muon"))


def test_muon_goes_on_from_its_state_to_the_same_bits():
    whole, _, _ = stepped("muon", steps=4)
    half, descent, _ = stepped("muon", steps=2)
    again = Net()
    again.load_state_dict(half.state_dict())
    resumed = build_optimiser(again, TrainingConfig(optimiser="muon", learning_rate=0.01))
    resumed.load_state_dict(descent.state_dict())
    x = torch.randn(20, 5, generator=torch.Generator().manual_seed(2))
    for _ in range(2):
        resumed.zero_grad()
        again.last(torch.relu(again.first(x))).square().sum().backward()
        resumed.step()
    assert all(torch.equal(value, whole.state_dict()[name]) for name, value in again.state_dict().items())
