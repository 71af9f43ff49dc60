"""A spline coupling as one differentiable operation: matrix products by torch, all between them by C++ kernels."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from boltzkit.flow.native_layers import Given, native_features, native_features_backward
from boltzkit.flow.native_spline import NativeSplines, native_backward, native_forward
from boltzkit.flow.relu_network import activations, layer_gradients

__all__ = ["CouplingPlan", "fused_coupling"]


class CouplingPlan(NamedTuple):
    """What is fixed in a coupling.

    Args:
        given: rows that the network sees and that pass through.
        changed: rows that are moved.
        seam: of the moved rows, as in `spline.Splines`.
        n_bins: bins of each spline.
        n_linear: how many of the moved rows, the first ones, lie on the interval.
        inverse: move by the splines' roots.
        short: multiply in bfloat16 for the gradients.
    """

    given: Given
    changed: Tensor
    seam: Tensor
    n_bins: int
    n_linear: int
    inverse: bool
    short: bool

    def splines(self, bias: Tensor) -> NativeSplines:
        """Return what the kernel needs; the network's last bias is added as it reads the parameters."""
        return NativeSplines(self.n_bins, self.n_linear, self.seam, self.changed, bias)


def fused_coupling(
    rows: Tensor, plan: CouplingPlan, weights: Sequence[Tensor], biases: Sequence[Tensor]
) -> tuple[Tensor, Tensor]:
    """Move rows ``(dims, batch)``; return them and the log-determinants ``(batch,)``.

    Args:
        rows: float32 on a CPU, contiguous.
        plan: the coupling.
        weights: of the network's layers.
        biases: likewise.
    """
    moved, log_det = _Coupling.apply(rows, plan, *weights, *biases)  # type: ignore[no-untyped-call]
    return moved, log_det


class _Coupling(torch.autograd.Function):
    """Nothing is copied that need not be: rows pass from array to array once, gradients too."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, plan: CouplingPlan, *parameters: Tensor) -> tuple[Tensor, Tensor]:
        weights, biases = parameters[: len(parameters) // 2], parameters[len(parameters) // 2 :]
        moved = torch.empty_like(rows)
        seen = activations(native_features(rows, plan.given, moved), weights[:-1], biases[:-1])
        raw, bias = weights[-1] @ seen[-1], biases[-1].contiguous()
        log_det = native_forward(rows, raw, plan.splines(bias), inverse=plan.inverse, out=moved)
        # The splines' gradients are taken at a point of the x-axis: the argument of one map, the result of the other.
        ctx.save_for_backward(moved if plan.inverse else rows, raw, bias, *seen, *weights)
        ctx.plan = plan
        return moved, log_det

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor, grad_log: Tensor) -> tuple[Tensor | None, ...]:
        if ctx.plan is None:
            raise RuntimeError(
                "A spline coupling can be differentiated once: its parameters are gone. Evaluate it again."
            )
        x, raw, bias, *rest = ctx.saved_tensors
        plan, seen, weights = ctx.plan, rest[: len(rest) // 2], rest[len(rest) // 2 :]
        needs_rows, _, *needs_parameters = ctx.needs_input_grad
        grad, by_rows = grad.contiguous(), torch.empty_like(x)
        splines = plan.splines(bias)
        # The splines' parameters, the largest array of all, are needed for the last time: their gradient replaces them
        by_raw, by_bias = native_backward(
            x, raw, splines, grad, grad_log, inverse=plan.inverse, out=by_rows, in_place=True
        )
        ctx.plan = None
        needed = [needs_rows, *needs_parameters]
        by_h, by_weights, by_biases = layer_gradients(by_raw, seen, weights, needed, plan.short)
        if by_h is not None:
            native_features_backward(plan.given, seen[0], by_h, grad, by_rows)
        return by_rows if needs_rows else None, None, *by_weights, *by_biases, by_bias
