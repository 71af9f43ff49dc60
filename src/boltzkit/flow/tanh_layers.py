"""Scaling or normalisation of rows followed by tanh, on ``(*replicas, features, batch)``.

In float32 on a CPU each is one C++ pass that can be differentiated once; else plain torch.
"""

import ctypes
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from boltzkit.native import load_library
from boltzkit.native.call import call
from boltzkit.ranks import add_over_ranks, rank_count, sum_over_ranks

__all__ = ["batch_statistics", "normalised_tanh", "tanh_of_rows"]

_SOURCE = Path(__file__).with_name("tanh_layers.cpp")


def tanh_of_rows(h: Tensor, slope: Tensor | None, offset: Tensor) -> Tensor:
    """Return tanh(slope · h + offset); slopes and offsets are ``(*replicas, features, 1)``, None stands for one."""
    library = _library(h)
    if library is None:
        return torch.tanh(h + offset if slope is None else torch.addcmul(offset, slope, h))
    out: Tensor = _TanhOfRows.apply(library, h, slope, offset)  # type: ignore[no-untyped-call]
    return out


def normalised_tanh(
    h: Tensor, scale: Tensor, shift: Tensor, epsilon: float
) -> tuple[Tensor, Tensor, Tensor, int]:
    """Return tanh(scale · (h − mean)/√(var + ε) + shift), and the batch's mean, variance and size, without gradient."""
    library = _library(h) if rank_count() == 1 else None
    if library is None:
        mean, var, n = batch_statistics(h, correction=0)
        out = torch.tanh(scale * (h - mean) * torch.rsqrt(var + epsilon) + shift)
        return out, mean.detach(), var.detach(), n
    out, mean, var = _NormalisedTanh.apply(library, h, scale, shift, epsilon)  # type: ignore[no-untyped-call]
    return out, mean, var, h.shape[-1]


def batch_statistics(h: Tensor, correction: int) -> tuple[Tensor, Tensor, int]:
    """Return mean and variance over the batch, of which every rank has a share, and its size.

    Args:
        h: ``(*replicas, features, batch)``.
        correction: 0 for the variance of the batch itself, 1 for an estimate without bias.
    """
    if rank_count() == 1:
        var, mean = torch.var_mean(h, dim=-1, correction=correction, keepdim=True)
        return mean, var, h.shape[-1]
    n = add_over_ranks(h.shape[-1])
    mean = sum_over_ranks(h.sum(-1, keepdim=True)) / n
    return mean, sum_over_ranks((h - mean).square().sum(-1, keepdim=True)) / (n - correction), n


class _TanhOfRows(torch.autograd.Function):
    """The pass over rows and its gradients."""

    @staticmethod
    def forward(ctx: Any, library: ctypes.CDLL, h: Tensor, slope: Tensor | None, offset: Tensor) -> Tensor:
        slope = None if slope is None else slope.contiguous()
        out = torch.empty_like(h)
        call(library, "tanh_of_rows", h, slope, offset.contiguous(), out, *_shape(h))
        ctx.library = library
        # Without slopes there is no gradient that needs h.
        ctx.save_for_backward(out, *(() if slope is None else (h, slope)))
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        out, *rest = ctx.saved_tensors
        h, slope = rest if rest else (None, None)
        found = (torch.empty_like(out), _per_row(out) if rest else None, _per_row(out))
        grad = grad.contiguous()
        call(ctx.library, "tanh_of_rows_backward", h, slope, out, grad, *found, *_shape(out))
        return None, *found


class _NormalisedTanh(torch.autograd.Function):
    """Statistics, normalisation and tanh of rows, and their gradients."""

    @staticmethod
    def forward(
        ctx: Any, library: ctypes.CDLL, h: Tensor, scale: Tensor, shift: Tensor, epsilon: float
    ) -> tuple[Tensor, Tensor, Tensor]:
        scale, shift = scale.contiguous(), shift.contiguous()
        out, mean, var = torch.empty_like(h), _per_row(h), _per_row(h)
        call(library, "normalised_tanh", h, scale, shift, epsilon, out, mean, var, *_shape(h))
        ctx.library, ctx.epsilon = library, epsilon
        ctx.save_for_backward(h, scale, mean, var, out)
        ctx.mark_non_differentiable(mean, var)
        return out, mean, var

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor, *_: Tensor) -> tuple[Tensor | None, ...]:
        h, scale, mean, var, out = ctx.saved_tensors
        found = (torch.empty_like(h), _per_row(h), _per_row(h))
        given = (h, scale, ctx.epsilon, mean, var, out, grad.contiguous())
        call(ctx.library, "normalised_tanh_backward", *given, *found, *_shape(h))
        return None, *found, None


def _library(h: Tensor) -> ctypes.CDLL | None:
    suitable = h.dtype == torch.float32 and h.device.type == "cpu" and h.is_contiguous() and h.numel() > 0
    return load_library(_SOURCE) if suitable else None


def _per_row(h: Tensor) -> Tensor:
    return h.new_empty(*h.shape[:-1], 1)


def _shape(h: Tensor) -> tuple[int, int]:
    return h.numel() // h.shape[-1], h.shape[-1]
