"""A fully connected ReLU network on features ``(features, batch)``, whose backward pass wastes nothing."""

from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from boltzkit.flow.conditioner import Linear, affine
from boltzkit.flow.native_layers import add_bias, mask_and_sum

__all__ = ["ReluNetwork"]


class ReluNetwork(nn.Module):
    """Linear → Linear → ReLU → (Linear → ReLU)* → Linear, from ``(n_in, batch)`` to ``(n_out, batch)``.

    As in the authors' code there is no ReLU after the first layer, so that the first two are one linear map. They are
    multiplied out before they meet the batch: parameters and gradients are those of two layers, the cost is that of
    one small one. With a single hidden layer its ReLU is kept.

    Args:
        n_in: number of features.
        n_out: number of results.
        hidden: widths of the hidden layers.
    """

    def __init__(self, n_in: int, n_out: int, hidden: tuple[int, ...]) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Linear(a, b) for a, b in pairwise((n_in, *hidden, n_out)))

    def forward(self, h: Tensor) -> Tensor:
        """Map features to results."""
        weights: list[Tensor] = [layer.weight for layer in self._linears()]
        biases: list[Tensor] = [layer.bias for layer in self._linears()]
        if len(weights) > 2:
            weights[:2], biases[:2] = [weights[1] @ weights[0]], [affine(weights[1], biases[0], biases[1])]
        out: Tensor = _Layers.apply(h, *weights, *biases)  # type: ignore[no-untyped-call]
        return out

    def start(self, generator: torch.Generator, bias: float) -> None:
        """Draw the hidden layers; the last one starts at zero with a constant bias."""
        *hidden, last = self._linears()
        for layer in hidden:
            layer.start([generator])
        nn.init.zeros_(last.weight)
        nn.init.constant_(last.bias, bias)

    def _linears(self) -> list[Linear]:
        return [layer for layer in self.layers if isinstance(layer, Linear)]


class _Layers(torch.autograd.Function):
    """Affine maps with a ReLU between each two, kept as activations and differentiated in place."""

    @staticmethod
    def forward(ctx: Any, h: Tensor, *parameters: Tensor) -> Tensor:
        weights, biases = parameters[: len(parameters) // 2], parameters[len(parameters) // 2 :]
        seen = [h]
        for weight, bias in zip(weights[:-1], biases[:-1], strict=True):
            seen.append(add_bias(weight @ seen[-1], bias, relu=True))
        ctx.save_for_backward(*seen, *weights)
        return add_bias(weights[-1] @ seen[-1], biases[-1], relu=False)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        n_layers = len(ctx.saved_tensors) // 2
        seen, weights = ctx.saved_tensors[:n_layers], ctx.saved_tensors[n_layers:]
        by_weights: list[Tensor | None] = [None] * n_layers
        by_biases: list[Tensor | None] = [None] * n_layers
        by_biases[-1] = mask_and_sum(grad, None)
        for i in reversed(range(n_layers)):
            if ctx.needs_input_grad[1 + i]:
                by_weights[i] = grad @ seen[i].mT
            if i > 0:
                grad = weights[i].mT @ grad
                by_biases[i - 1] = mask_and_sum(grad, seen[i])
        by_h = weights[0].mT @ grad if ctx.needs_input_grad[0] else None
        return by_h, *by_weights, *by_biases
