"""A fully connected ReLU network on features ``(features, batch)``, whose backward pass wastes nothing."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from boltzkit.flow.conditioner import Linear, affine
from boltzkit.flow.native_layers import add_bias, mask_and_sum

__all__ = ["ReluNetwork", "activations", "layer_gradients"]


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
        self.short_gradients = False
        self.layers = nn.ModuleList(Linear(a, b) for a, b in pairwise((n_in, *hidden, n_out)))

    def forward(self, h: Tensor) -> Tensor:
        """Map features to results."""
        weights, biases = self.merged()
        out: Tensor = _Layers.apply(h, self.multiplies_short(), *weights, *biases)  # type: ignore[no-untyped-call]
        return out

    def merged(self) -> tuple[list[Tensor], list[Tensor]]:
        """Return weights and biases of the layers that are left when the first two are one."""
        weights: list[Tensor] = [layer.weight for layer in self._linears()]
        biases: list[Tensor] = [layer.bias for layer in self._linears()]
        if len(weights) > 2:
            weights[:2], biases[:2] = [weights[1] @ weights[0]], [affine(weights[1], biases[0], biases[1])]
        return weights, biases

    def multiplies_short(self) -> bool:
        """Whether gradients are wanted in bfloat16: only in training, whose noise is larger than the rounding."""
        return self.short_gradients and self.training

    def hidden_weights(self) -> list[nn.Parameter]:
        """Return the matrices of all layers but the last."""
        return [layer.weight for layer in self._linears()[:-1]]

    def start(self, generator: torch.Generator, bias: float) -> None:
        """Draw the hidden layers; the last one starts at zero with a constant bias."""
        *hidden, last = self._linears()
        for layer in hidden:
            layer.start([generator])
        nn.init.zeros_(last.weight)
        nn.init.constant_(last.bias, bias)

    def _linears(self) -> list[Linear]:
        return [layer for layer in self.layers if isinstance(layer, Linear)]


def activations(h: Tensor, weights: Sequence[Tensor], biases: Sequence[Tensor]) -> list[Tensor]:
    """Return the features and the results of every hidden layer after its ReLU."""
    seen = [h]
    for weight, bias in zip(weights, biases, strict=True):
        seen.append(add_bias(weight @ seen[-1], bias, relu=True))
    return seen


def layer_gradients(
    grad: Tensor, seen: Sequence[Tensor], weights: Sequence[Tensor], needed: Sequence[bool], short: bool
) -> tuple[Tensor | None, list[Tensor | None], list[Tensor]]:
    """Carry a gradient in the results back through all layers.

    Args:
        grad: the gradient.
        seen: `activations` of the hidden layers.
        weights: of all layers.
        needed: whether the gradient is needed in the features, and in each of the weights.
        short: multiply float32 on a CPU in bfloat16.

    Returns:
        The gradients in the features, in the weights, and in the biases of the hidden layers.
    """
    by_weights: list[Tensor | None] = [None] * len(weights)
    by_biases: list[Tensor] = []
    full = grad.dtype
    factor = torch.bfloat16 if short and full == torch.float32 and grad.device.type == "cpu" else full
    for i in reversed(range(len(weights))):
        right = grad.to(factor)
        if needed[1 + i]:
            by_weights[i] = (right @ seen[i].to(factor).mT).to(full)
        if i > 0 or needed[0]:
            grad = (weights[i].to(factor).mT @ right).to(full)
        if i > 0:
            by_biases.insert(0, mask_and_sum(grad, seen[i]))
    return grad if needed[0] else None, by_weights, by_biases


class _Layers(torch.autograd.Function):
    """Affine maps with a ReLU between each two, kept as activations and differentiated in place."""

    @staticmethod
    def forward(ctx: Any, h: Tensor, short: bool, *parameters: Tensor) -> Tensor:
        weights, biases = parameters[: len(parameters) // 2], parameters[len(parameters) // 2 :]
        seen = activations(h, weights[:-1], biases[:-1])
        ctx.save_for_backward(*seen, *weights)
        ctx.short = short
        return add_bias(weights[-1] @ seen[-1], biases[-1], relu=False)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        n_layers = len(ctx.saved_tensors) // 2
        seen, weights = ctx.saved_tensors[:n_layers], ctx.saved_tensors[n_layers:]
        needs_h, _, *needs_parameters = ctx.needs_input_grad
        needed = [needs_h, *needs_parameters]
        by_h, by_weights, by_biases = layer_gradients(grad, seen, weights, needed, ctx.short)
        return by_h, None, *by_weights, *by_biases, mask_and_sum(grad, None)
