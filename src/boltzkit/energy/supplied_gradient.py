"""Energies from engines that bring their own gradient, made differentiable."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

__all__ = ["Engine", "differentiable"]

Engine = Callable[[Tensor, bool], tuple[Tensor, Tensor]]
"""(x, whether the gradient is wanted) -> energies ``(n,)`` and gradients ``(n, *event)``, or anything if not."""


def differentiable(engine: Engine, x: Tensor) -> Tensor:
    """Return an engine's energies of ``(n, *event)`` configurations, ``(n,)``, with its gradient attached.

    Energy and gradient come from one call, made without a gradient where none can be asked for. A configuration
    with a coordinate that is not finite never reaches the engine: its energy and gradient are NaN.

    >>> def square(x, gradient):
    ...     return (x**2).sum(-1), 2 * x
    >>> x = torch.tensor([[3.0, 4.0]], requires_grad=True)
    >>> energy = differentiable(square, x)
    >>> torch.autograd.grad(energy.sum(), x)
    (tensor([[6., 8.]]),)
    """
    energy: Tensor = _Supplied.apply(x, engine)  # type: ignore[no-untyped-call]
    return energy


class _Supplied(torch.autograd.Function):
    """Energy and gradient in one call; the backward only scales the stored gradient."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, engine: Engine) -> Tensor:
        energy, gradient = _finite_only(engine, x.detach(), ctx.needs_input_grad[0])
        ctx.save_for_backward(gradient)
        return energy

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor, None]:
        (gradient,) = ctx.saved_tensors
        scale = grad_output.reshape(-1, *[1] * (gradient.ndim - 1))
        # On the plateau of a regularised energy the slope is zero, even where the engine's is infinite.
        return torch.where(scale == 0, 0.0, scale * gradient), None


def _finite_only(engine: Engine, x: Tensor, wanted: bool) -> tuple[Tensor, Tensor]:
    # A finite sum has finite summands: the usual case takes one pass over the batch and copies nothing.
    if x.sum().isfinite():
        energy, gradient = engine(x, wanted)
        return energy, gradient if wanted else x.new_empty(0)
    finite = x.flatten(1).isfinite().all(-1)
    found, slope = engine(x[finite], wanted)
    energy = found.new_full(finite.shape, torch.nan)
    energy[finite] = found
    if not wanted:
        return energy, x.new_empty(0)
    gradient = slope.new_full(x.shape, torch.nan)
    gradient[finite] = slope
    return energy, gradient
