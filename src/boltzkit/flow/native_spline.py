"""The splines of a coupling by one C++ kernel, forward and backward, for float32 on a CPU."""

import ctypes
from pathlib import Path

import torch
from torch import Tensor

from boltzkit.native import load_library

__all__ = ["NATIVE_BINS", "native_backward", "native_forward", "native_ready"]

NATIVE_BINS = (4, 8, 16)
"""Numbers of bins that the kernel is compiled for."""

_SOURCE = Path(__file__).with_name("spline.cpp")


class _Splines(ctypes.Structure):
    """The struct ``Splines`` of spline.cpp."""

    _fields_ = (
        *((name, ctypes.c_int64) for name in ("bins", "dims", "linear", "batch")),
        ("seam", ctypes.c_void_p),
    )


def native_ready(x: Tensor, n_bins: int) -> bool:
    """Whether the kernel can take these values."""
    suitable = x.dtype == torch.float32 and x.device.type == "cpu" and n_bins in NATIVE_BINS
    return suitable and load_library(_SOURCE) is not None


def native_forward(
    x: Tensor, raw: Tensor, seam: Tensor, n_bins: int, n_linear: int, inverse: bool
) -> tuple[Tensor, Tensor]:
    """Return values ``(dims, batch)`` and Σ log-slopes over dims ``(batch,)``; arguments as in `spline.spline`."""
    x, raw, seam = (tensor.contiguous() for tensor in (x, raw, seam))
    value, log_slope = torch.empty_like(x), x.new_empty(x.shape[1])
    _call("spline_forward", x, seam, (n_bins, n_linear), inverse, (x, raw, value, log_slope))
    return value, log_slope


def native_backward(
    x: Tensor,
    raw: Tensor,
    seam: Tensor,
    n_bins: int,
    n_linear: int,
    inverse: bool,
    grad: Tensor,
    grad_log: Tensor,
) -> tuple[Tensor, Tensor]:
    """Return gradients in the argument ``(dims, batch)`` and in raw, at the point x of the x-axis."""
    x, raw, seam, grad, grad_log = (tensor.contiguous() for tensor in (x, raw, seam, grad, grad_log))
    grad_x, grad_raw = torch.empty_like(x), torch.empty_like(raw)
    arrays = (x, raw, grad, grad_log, grad_x, grad_raw)
    _call("spline_backward", x, seam, (n_bins, n_linear), inverse, arrays)
    return grad_x, grad_raw


def _call(
    name: str, x: Tensor, seam: Tensor, sizes: tuple[int, int], inverse: bool, arrays: tuple[Tensor, ...]
) -> None:
    library = load_library(_SOURCE)
    assert library is not None, "native_ready says whether there is a kernel"
    n_bins, n_linear = sizes
    splines = _Splines(n_bins, x.shape[0], n_linear, x.shape[1], seam.data_ptr())
    pointers = (ctypes.c_void_p(array.data_ptr()) for array in arrays)
    threads = ctypes.c_int64(torch.get_num_threads())
    if getattr(library, name)(ctypes.byref(splines), ctypes.c_int64(inverse), *pointers, threads):
        raise MemoryError(f"The spline kernel had no memory for {x.shape[1]} samples.")
