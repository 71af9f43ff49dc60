"""Calling a compiled function with tensors."""

import ctypes
from typing import Any

import torch
from torch import Tensor

__all__ = ["call"]


def call(library: ctypes.CDLL, name: str, *arguments: Tensor | int | float | ctypes.Structure | None) -> None:
    """Call a C function that ends with the number of threads and returns nonzero when memory ran out.

    Tensors (contiguous, on the CPU, of the type that the function expects) are passed by their addresses, structures
    by reference, integers as int64, floats as float, None as a null pointer; the number of threads is torch's. A tensor
    of another device is refused: its address means nothing here.
    """
    failed = getattr(library, name)(*map(_plain, arguments), ctypes.c_int64(torch.get_num_threads()))
    if failed:
        raise MemoryError(f"There was no memory left in '{name}': take smaller batches.")


def _plain(argument: Tensor | int | float | ctypes.Structure | None) -> Any:
    if isinstance(argument, Tensor):
        if argument.device.type != "cpu":
            raise ValueError(f"A compiled function takes tensors of the CPU, not of {argument.device}.")
        return ctypes.c_void_p(argument.data_ptr())
    if isinstance(argument, ctypes.Structure):
        return ctypes.byref(argument)
    if isinstance(argument, float):
        return ctypes.c_float(argument)
    return ctypes.c_void_p(None) if argument is None else ctypes.c_int64(argument)
