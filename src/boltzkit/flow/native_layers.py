"""Biases, ReLUs and their gradients in one C++ pass each, for float32 on a CPU; plain torch elsewhere."""

import ctypes
from pathlib import Path

import torch
from torch import Tensor

from boltzkit.native import load_library

__all__ = ["add_bias", "mask_and_sum"]

_SOURCE = Path(__file__).with_name("layers.cpp")


def add_bias(h: Tensor, bias: Tensor, *, relu: bool) -> Tensor:
    """Add a bias ``(rows, 1)`` to activations ``(rows, batch)`` in place, then take the ReLU where asked for."""
    library = _library(h)
    if library is None:
        h.add_(bias)
        return h.relu_() if relu else h
    rows, batch = h.shape
    _check(
        library.add_bias(
            _pointer(h), _pointer(bias.contiguous()), *_sizes(rows, batch, int(relu), torch.get_num_threads())
        )
    )
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
    active = ctypes.c_void_p(None) if seen is None else _pointer(seen)
    sizes = _sizes(*grad.shape, torch.get_num_threads())
    _check(library.mask_and_sum(_pointer(grad), active, _pointer(total), *sizes))
    return total


def _library(like: Tensor) -> ctypes.CDLL | None:
    suitable = like.dtype == torch.float32 and like.device.type == "cpu" and like.is_contiguous()
    return load_library(_SOURCE) if suitable else None


def _pointer(tensor: Tensor) -> ctypes.c_void_p:
    return ctypes.c_void_p(tensor.data_ptr())


def _sizes(*values: int) -> list[ctypes.c_int64]:
    return [ctypes.c_int64(value) for value in values]


def _check(failed: int) -> None:
    if failed:
        raise MemoryError("There was no memory left for a layer of the flow's network.")
