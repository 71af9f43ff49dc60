"""Flows as compositions: one in which nothing is learned is a flow too."""

import torch

from boltzkit.flow import Chain, Flow, StandardNormal
from boltzkit.flow.stretch import Stretch
from boltzkit.randomness import generator


def test_a_flow_without_parameters_can_be_sampled():
    flow = Flow(StandardNormal(3), Chain([Stretch(2.0, 1.0)]))
    x, log_prob = flow.sample(5, generator(0, "samples"))
    assert x.shape == (5, 3)
    torch.testing.assert_close(flow.log_prob(x), log_prob)
