"""The network's two-layers-in-one and its own backward pass against plain torch."""

from itertools import pairwise

import pytest
import torch
from torch import Tensor

from boltzkit.flow.relu_network import ReluNetwork
from boltzkit.randomness import generator


def network(hidden: tuple[int, ...]) -> ReluNetwork:
    made = ReluNetwork(3, 5, hidden).double()
    draw = generator(0, "network")
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=draw))
    return made


def plain(made: ReluNetwork, h: Tensor, *, linear_start: bool) -> Tensor:
    """The same layers one after the other, without ReLU after the first where the start is linear."""
    layers = list(made.layers)
    for i, layer in enumerate(layers):
        h = layer.weight @ h + layer.bias
        if i < len(layers) - 1 and not (linear_start and i == 0):
            h = h.relu()
    return h


def results(out: Tensor, made: ReluNetwork, h: Tensor) -> list[Tensor]:
    weights = torch.randn(out.shape, generator=generator(1, "weights"), dtype=torch.float64)
    return [out.detach(), *torch.autograd.grad(out, [h, *made.parameters()], weights)]


@pytest.mark.parametrize("hidden", [(4,), (4, 6), (4, 6, 5, 7)])
def test_values_and_gradients(hidden):
    made = network(hidden)
    h = torch.randn(3, 11, generator=generator(2, "h"), dtype=torch.float64, requires_grad=True)
    found = results(made(h), made, h)
    linear_start = len(hidden) > 1
    expected = results(plain(made, h, linear_start=linear_start), made, h)
    for f, e in zip(found, expected, strict=True):
        torch.testing.assert_close(f, e, rtol=1e-10, atol=1e-10)
    # Control: with the other start it is another network.
    assert (found[0] - plain(made, h, linear_start=not linear_start)).abs().max() > 0.1


def test_shapes_are_those_of_separate_layers():
    made = ReluNetwork(3, 5, (4, 6))
    assert [tuple(layer.weight.shape) for layer in made.layers] == [(b, a) for a, b in pairwise((3, 4, 6, 5))]


def test_frozen_parameters_get_no_gradient():
    made = network((4, 6)).requires_grad_(False)
    h = torch.randn(3, 2, dtype=torch.float64, generator=generator(0, "frozen"), requires_grad=True)
    made(h).sum().backward()
    assert h.grad is not None
    assert all(parameter.grad is None for parameter in made.parameters())
