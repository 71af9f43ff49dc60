"""Features, biases, ReLUs and their gradients in one C++ pass each, for float32 on a CPU; else plain torch."""

import ctypes
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from boltzkit.native import load_library
from boltzkit.native.call import call

__all__ = ["Given", "add_bias", "mask_and_sum", "native_features", "native_features_backward"]

_SOURCE = Path(__file__).with_name("layers.cpp")


class _Given(ctypes.Structure):
    """The struct ``Given`` of layers.cpp."""

    _fields_ = (
        *((name, ctypes.c_int64) for name in ("circular", "linear", "batch")),
        *((name, ctypes.c_void_p) for name in ("circular_rows", "linear_rows")),
    )


def add_bias(h: Tensor, bias: Tensor, *, relu: bool) -> Tensor:
    """Add a bias ``(rows, 1)`` to activations ``(rows, batch)`` in place, then take the ReLU where asked for."""
    library = _library(h)
    if library is None:
        h.add_(bias)
        return h.relu_() if relu else h
    call(library, "add_bias", h, bias.contiguous(), *h.shape, int(relu))
    return h


def mask_and_sum(grad: Tensor, seen: Tensor | None) -> Tensor:
    """Clear a gradient ``(rows, batch)`` in place where the ReLU's result is zero; return its sum ``(rows, 1)``.

    Args:
        grad: the gradient in the ReLU's result, which becomes that in its argument.
        seen: the ReLU's result; None without a ReLU.
    """
    library = _library(grad)
    if library is None:
        if seen is not None:
            torch.ops.aten.threshold_backward.grad_input(grad, seen, 0.0, grad_input=grad)
        return grad.sum(1, keepdim=True)
    total = grad.new_empty(len(grad), 1)
    call(library, "mask_and_sum", grad, seen, total, *grad.shape)
    return total


class Given(NamedTuple):
    """Which rows of the coordinates a network sees: circular ones by cosine and sine, then the others."""

    circular: Tensor
    linear: Tensor


def native_features(rows: Tensor, given: Given, out: Tensor) -> Tensor:
    """Return a network's features of rows ``(dims, batch)`` by the kernel, and copy the given rows to out."""
    found = rows.new_empty(2 * len(given.circular) + len(given.linear), rows.shape[1])
    call(_ready(), "features", _struct(given, rows), rows, out, found)
    return found


def native_features_backward(
    given: Given, seen: Tensor, grad_seen: Tensor, grad: Tensor, out: Tensor
) -> None:
    """Write to the given rows of out their gradient: what came around the network, and through its features.

    Args:
        given: which rows.
        seen: the features.
        grad_seen: the gradient in them.
        grad: the gradient in the rows, ``(dims, batch)``.
        out: like it.
    """
    call(_ready(), "features_backward", _struct(given, grad), seen, grad_seen, grad, out)


def _library(like: Tensor) -> ctypes.CDLL | None:
    suitable = like.dtype == torch.float32 and like.device.type == "cpu" and like.is_contiguous()
    return load_library(_SOURCE) if suitable else None


def _ready() -> ctypes.CDLL:
    library = load_library(_SOURCE)
    assert library is not None, "the caller asks first"
    return library


def _struct(given: Given, rows: Tensor) -> _Given:
    pointers = (index.data_ptr() for index in given)
    return _Given(len(given.circular), len(given.linear), rows.shape[1], *pointers)
