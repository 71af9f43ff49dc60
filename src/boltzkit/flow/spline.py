"""Splines over a batch of dims as differentiable operations: by a C++ kernel where there is one, else plain torch."""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from boltzkit.flow.native_spline import NativeSplines, native_backward, native_forward, native_ready
from boltzkit.flow.spline_kernel import evaluate, evaluate_gradient, solve, solve_gradient

__all__ = ["Splines", "n_parameters", "spline", "spline_inverse"]

_Kernel = Callable[..., tuple[Tensor, Tensor]]


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
        compiled: use the C++ kernel (float32 on a CPU, 4, 8 or 16 bins), compiled once per machine in a few seconds.
        torch_compiled: elsewhere let torch.compile make the operations of plain torch one.
    """

    n_bins: int
    n_linear: int
    seam: Tensor
    compiled: bool = True
    torch_compiled: bool = False


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
            x, raw, value = x.contiguous(), raw.contiguous(), torch.empty(x.shape, dtype=x.dtype)
            total = native_forward(x, raw, _native(splines, raw), inverse=kernel is solve, out=value)
        else:
            value, log_slope = _run(kernel, splines, x, raw)
            total = log_slope.sum(0)
        # Both gradients are taken at a point of the x-axis: the argument of one map, the result of the other.
        ctx.save_for_backward(x if kernel is evaluate else value, raw)
        return value, total

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor, grad_log_slope: Tensor) -> tuple[Tensor | None, ...]:
        x, raw = ctx.saved_tensors
        n_bins, n_linear = ctx.splines.n_bins, ctx.splines.n_linear
        if ctx.native:
            inverse, grad_x = ctx.gradient is solve_gradient, torch.empty_like(x)
            native = _native(ctx.splines, raw)
            grad_raw, _ = native_backward(x, raw, native, grad, grad_log_slope, inverse=inverse, out=grad_x)
            return grad_x, grad_raw, None, None, None
        incoming = grad, grad_log_slope.expand(x.shape)
        grad_x, rows = _run(ctx.gradient, ctx.splines, x, raw, *incoming)
        rows[2 * n_bins, n_linear:] += rows[3 * n_bins, n_linear:]
        # The rows of last slopes end with the circles', which are no parameters: what comes before is in place.
        return grad_x, rows.view(-1, x.shape[1])[: raw.shape[0]], None, None, None


def _native(splines: Splines, raw: Tensor) -> NativeSplines:
    """Return what the kernel needs for values that lie in order, and parameters without a bias."""
    place, bias = torch.arange(len(splines.seam)), torch.zeros(len(raw), 1)
    seam = splines.seam.to(torch.float32).contiguous()
    return NativeSplines(splines.n_bins, splines.n_linear, seam, place, bias)


def _run(
    kernel: _Kernel, splines: Splines, x: Tensor, raw: Tensor, *incoming: Tensor
) -> tuple[Tensor, Tensor]:
    """Call a kernel of plain torch on rows of parameters; the last slope of a circle is its first."""
    n_rows = 3 * splines.n_bins
    rows = raw[: n_rows * len(x)].view(n_rows, *x.shape)
    last = torch.cat([raw[n_rows * len(x) :], rows[2 * splines.n_bins, splines.n_linear :]])
    kernel = _torch_compiled(kernel) if splines.torch_compiled else kernel
    return kernel(x, rows, last, splines.seam.expand(x.shape), *incoming)


@functools.cache
def _torch_compiled(kernel: _Kernel) -> _Kernel:
    return cast(_Kernel, torch.compile(kernel))
