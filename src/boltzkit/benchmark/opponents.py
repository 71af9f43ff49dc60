"""Spline flows of other libraries, built to the same size, as opponents."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from boltzkit.errors import UserError
from boltzkit.flow import SplineFlowConfig

__all__ = ["OPPONENTS", "Opponent"]


@dataclass(frozen=True)
class Opponent:
    """A flow on the unit box that can be trained and sampled.

    Attributes:
        module: holds the parameters.
        log_prob: ``(batch, dim) -> (batch,)``.
        sample: number -> samples and log-densities.
    """

    module: nn.Module
    log_prob: Callable[[Tensor], Tensor]
    sample: Callable[[int], object]

    @property
    def parameters(self) -> int:
        """Number of trained parameters."""
        return sum(parameter.numel() for parameter in self.module.parameters())


def _blocks(config: SplineFlowConfig) -> int:
    """Return how many residual blocks of two layers make as many layers as the hidden ones ask for."""
    return len(config.hidden) // 2


def _nflows(config: SplineFlowConfig, kinds: Sequence[str]) -> Opponent:
    from nflows.distributions.normal import StandardNormal
    from nflows.flows.base import Flow
    from nflows.nn.nets.resnet import ResidualNet
    from nflows.transforms.base import CompositeTransform
    from nflows.transforms.coupling import PiecewiseRationalQuadraticCouplingTransform

    def network(n_in: int, n_out: int) -> Any:
        return ResidualNet(n_in, n_out, config.hidden[0], num_blocks=_blocks(config))

    dim = len(kinds)
    masks = [(torch.arange(dim) + layer) % 2 for layer in range(2 * config.pairs)]
    layers = [
        PiecewiseRationalQuadraticCouplingTransform(
            mask, network, config.bins, tails="linear", tail_bound=1.0
        )
        for mask in masks
    ]
    flow = Flow(CompositeTransform(layers), StandardNormal([dim]))
    return Opponent(flow, lambda x: flow.log_prob(2 * x - 1), flow.sample_and_log_prob)


def _normflows(config: SplineFlowConfig, kinds: Sequence[str]) -> Opponent:
    import normflows

    dim = len(kinds)
    turns = [d for d, kind in enumerate(kinds) if kind == "torsion"]
    layers = [
        normflows.flows.CircularCoupledRationalQuadraticSpline(
            dim,
            _blocks(config),
            config.hidden[0],
            turns,
            num_bins=config.bins,
            tail_bound=1.0,
            reverse_mask=bool(layer % 2),
        )
        for layer in range(2 * config.pairs)
    ]
    widths = torch.tensor([2.0 if kind == "torsion" else 0.2 for kind in kinds])
    flow = normflows.NormalizingFlow(normflows.distributions.UniformGaussian(dim, turns, widths), layers)
    return Opponent(flow, lambda x: flow.log_prob(2 * x - 1), flow.sample)


def _zuko(config: SplineFlowConfig, kinds: Sequence[str]) -> Opponent:
    import zuko

    # Its couplings compute parameters for all dims and mask half of them; narrower layers make up for that.
    width = round(_ZUKO_WIDTH * config.hidden[0])
    flow = zuko.flows.NSF(
        len(kinds),
        bins=config.bins,
        transforms=2 * config.pairs,
        hidden_features=[width] * len(config.hidden),
        passes=2,
    )
    return Opponent(
        flow, lambda x: flow().log_prob(2 * x - 1), lambda n: flow().rsample_and_log_prob(torch.Size([n]))
    )


_ZUKO_WIDTH = 0.806
"""Share of the width with which zuko's flow has as many parameters."""


def _or_explain(
    name: str, build: Callable[[SplineFlowConfig, Sequence[str]], Opponent]
) -> Callable[[SplineFlowConfig, Sequence[str]], Opponent]:
    def guarded(config: SplineFlowConfig, kinds: Sequence[str]) -> Opponent:
        try:
            return build(config, kinds)
        except ImportError as error:
            raise UserError(
                f"{name} is not installed ({error}): pip install 'boltzkit[benchmark]', or leave the opponents "
                "out with --no-opponents."
            ) from error

    return guarded


OPPONENTS = {
    name: _or_explain(name, build)
    for name, build in {"nflows": _nflows, "normflows": _normflows, "zuko": _zuko}.items()
}
"""Name of the library -> (architecture, kinds of dims) -> its flow."""
