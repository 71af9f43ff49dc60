"""The splines of a coupling by one C++ kernel, forward and backward, for float32 on a CPU."""

import ctypes
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from boltzkit.native import load_library
from boltzkit.native.call import call

__all__ = ["NATIVE_BINS", "NativeSplines", "native_backward", "native_forward", "native_ready"]

NATIVE_BINS = (4, 8, 16)
"""Numbers of bins that the kernel is compiled for."""

_SOURCE = Path(__file__).with_name("spline.cpp")


class NativeSplines(NamedTuple):
    """What the kernel needs to know of the splines of one coupling.

    Args:
        n_bins: the number K of bins.
        n_linear: how many dims lie on the interval; they come first.
        seam: ``(dims, 1)``, as in `spline.Splines`.
        place: ``(dims,)``, the row of the values that belongs to a dim.
        bias: ``(n_parameters, 1)``, added to the parameters.
    """

    n_bins: int
    n_linear: int
    seam: Tensor
    place: Tensor
    bias: Tensor


class _Splines(ctypes.Structure):
    """The struct ``Splines`` of spline.cpp."""

    _fields_ = (
        *((name, ctypes.c_int64) for name in ("bins", "dims", "linear", "batch")),
        *((name, ctypes.c_void_p) for name in ("seam", "place", "bias")),
    )


def native_ready(x: Tensor, n_bins: int) -> bool:
    """Whether the kernel can take these values."""
    suitable = x.dtype == torch.float32 and x.device.type == "cpu" and n_bins in NATIVE_BINS
    return suitable and load_library(_SOURCE) is not None


def native_forward(x: Tensor, raw: Tensor, splines: NativeSplines, *, inverse: bool, out: Tensor) -> Tensor:
    """Write the moved rows to out, like x ``(rows, batch)``; return Σ log-slopes over dims, ``(batch,)``."""
    log_slope = x.new_empty(x.shape[1])
    call(_library(), "spline_forward", _struct(splines, x), int(inverse), x, raw, out, log_slope)
    return log_slope


def native_backward(
    x: Tensor,
    raw: Tensor,
    splines: NativeSplines,
    grad: Tensor,
    grad_log: Tensor,
    *,
    inverse: bool,
    out: Tensor,
    in_place: bool = False,
) -> tuple[Tensor, Tensor]:
    """Write the gradient in the moved rows to out; return those in raw and, its sums, in the bias.

    Args:
        x: ``(rows, batch)``, the moved ones at a point of the splines' x-axis.
        raw: parameters.
        splines: the rest.
        grad: the gradient in the result, like x.
        grad_log: that in the log-slopes, ``(batch,)``.
        inverse: whether the map was the inverse.
        out: like x.
        in_place: overwrite raw with its gradient, which saves a third of the traffic with memory.
    """
    grad, grad_log = grad.contiguous(), grad_log.contiguous()
    grad_raw = raw if in_place else torch.empty_like(raw)
    grad_bias = torch.empty_like(splines.bias)
    arrays = (x, raw, grad, grad_log, out, grad_raw, grad_bias)
    call(_library(), "spline_backward", _struct(splines, x), int(inverse), *arrays)
    return grad_raw, grad_bias


def _library() -> ctypes.CDLL:
    library = load_library(_SOURCE)
    assert library is not None, "native_ready says whether there is a kernel"
    return library


def _struct(splines: NativeSplines, x: Tensor) -> _Splines:
    n_bins, n_linear, *arrays = splines
    # The kernel reads bare memory: another type would be read as nonsense.
    types = [array.dtype for array in arrays]
    assert types == [torch.float32, torch.int64, torch.float32], types
    pointers = (array.data_ptr() for array in arrays)
    return _Splines(n_bins, len(splines.place), n_linear, x.shape[1], *pointers)
