"""Splines over a batch of dims as differentiable operations: compiled where it pays, plain torch elsewhere."""

import shutil
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from boltzkit.flow.native_spline import native_backward, native_forward, native_ready
from boltzkit.flow.spline_kernel import evaluate, evaluate_gradient, solve, solve_gradient

__all__ = ["Splines", "n_parameters", "spline", "spline_inverse"]

_Kernel = Callable[..., tuple[Tensor, Tensor]]

_WORTH_COMPILING = 1024
"""Elements below which a call is plain torch: a few samples must not wait for a compiler."""


def n_parameters(n_bins: int, n_linear: int, n_circular: int) -> int:
    """Return the rows of parameters: 3K + 1 for a dim of the interval, 3K for one of the circle.

    >>> n_parameters(8, n_linear=20, n_circular=9)
    716
    """
    return (3 * n_bins + 1) * n_linear + 3 * n_bins * n_circular


class Splines(NamedTuple):
    """What the splines of one coupling have in common.

    Args:
        n_bins: the number K of bins.
        n_linear: how many dims lie on the interval; they come first, those on the circle after them.
        seam: where on its circle the first knot of a circular dim lies, ``(dims, 1)`` in [0, 1); 0 on the interval.
        compiled: compile on first use (about ten seconds, cached on disk), if there is a C++ compiler.
    """

    n_bins: int
    n_linear: int
    seam: Tensor
    compiled: bool = True


def spline(x: Tensor, raw: Tensor, splines: Splines) -> tuple[Tensor, Tensor]:
    """Apply one spline to each element; return y and Σ log dy/dx over the dims.

    Args:
        x: values, ``(dims, batch)``.
        raw: parameters, ``(n_parameters, batch)``: K rows of dims for the widths, K for the heights, K for the
            slopes, and at the end the slope at 1 of the dims on the interval. On the circle it is the slope at 0.
        splines: bins and circles.

    Returns:
        ``(dims, batch)`` and ``(batch,)``.
    """
    y, log_slope = _Spline.apply(x, raw, splines, evaluate, evaluate_gradient)  # type: ignore[no-untyped-call]
    return y, log_slope


def spline_inverse(y: Tensor, raw: Tensor, splines: Splines) -> tuple[Tensor, Tensor]:
    """Undo `spline`: return x and Σ log dx/dy over the dims; same arguments, same cost."""
    x, log_slope = _Spline.apply(y, raw, splines, solve, solve_gradient)  # type: ignore[no-untyped-call]
    return x, log_slope


class _Spline(torch.autograd.Function):
    """One pass forward and one pass backward; nothing is kept in between but the values and their parameters."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, raw: Tensor, splines: Splines, kernel: _Kernel, gradient: _Kernel
    ) -> tuple[Tensor, Tensor]:
        ctx.splines, ctx.gradient = splines, gradient
        ctx.native = splines.compiled and native_ready(x, splines.n_bins)
        if ctx.native:
            sizes = splines.n_bins, splines.n_linear
            value, total = native_forward(x, raw, splines.seam, *sizes, inverse=kernel is solve)
        else:
            value, log_slope = _run(kernel, splines, x, raw)
            total = log_slope.sum(0)
        # Both gradients are taken at a point of the x-axis: the argument of one map, the result of the other.
        ctx.save_for_backward(x if kernel is evaluate else value, raw)
        return value, total

    @staticmethod
    @once_differentiable  # type: ignore[untyped-decorator]
    def backward(ctx: Any, grad: Tensor, grad_log_slope: Tensor) -> tuple[Tensor | None, ...]:
        x, raw = ctx.saved_tensors
        n_bins, n_linear = ctx.splines.n_bins, ctx.splines.n_linear
        if ctx.native:
            inverse = ctx.gradient is solve_gradient
            found = native_backward(x, raw, ctx.splines.seam, n_bins, n_linear, inverse, grad, grad_log_slope)
            return *found, None, None, None
        incoming = grad, grad_log_slope.expand(x.shape)
        grad_x, rows = _run(ctx.gradient, ctx.splines, x, raw, *incoming)
        rows[2 * n_bins, n_linear:] += rows[3 * n_bins, n_linear:]
        # The rows of last slopes end with the circles', which are no parameters: what comes before is in place.
        return grad_x, rows.view(-1, x.shape[1])[: raw.shape[0]], None, None, None


def _run(
    kernel: _Kernel, splines: Splines, x: Tensor, raw: Tensor, *incoming: Tensor
) -> tuple[Tensor, Tensor]:
    """Call a kernel on flat elements, so that whatever the shape, it is compiled once."""
    worth = x.numel() >= _WORTH_COMPILING and x.dtype == torch.float32 and x.device.type == "cpu"
    call = _compiled(kernel) if splines.compiled and worth else kernel
    n_rows = 3 * splines.n_bins
    # Detached: whether a gradient is asked for is no reason to compile again.
    rows = raw.detach()[: n_rows * len(x)].view(n_rows, *x.shape)
    last = torch.cat([raw.detach()[n_rows * len(x) :], rows[2 * splines.n_bins, splines.n_linear :]])
    others = (tensor.detach().reshape(-1) for tensor in (last, splines.seam.expand(x.shape), *incoming))
    value, other = call(x.detach().reshape(-1), rows.view(n_rows, -1), *others)
    return value.view(x.shape), other.view(*other.shape[:-1], *x.shape)


@cache
def _compiled(kernel: _Kernel) -> _Kernel:
    if shutil.which("g++") is None:
        return kernel
    # Any number of elements with one compilation; without the larger limit the gradient falls into several loops that
    # hand their intermediates to each other through memory.
    return torch.compile(kernel, dynamic=True, fullgraph=True, options={"max_fusion_size": 1024})
