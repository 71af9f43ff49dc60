"""How a training computes: the precision of its products, and what is compiled."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import torch

from boltzkit.flow import Flow, short_gradients, torch_compiled
from boltzkit.training.config import TrainingConfig

__all__ = ["arithmetic"]


@contextmanager
def arithmetic(flow: Flow, config: TrainingConfig) -> Iterator[None]:
    """Let a flow compute as a training says, then as before."""
    with ExitStack() as stack:
        stack.enter_context(_products(config.products))
        if config.compile:
            stack.enter_context(torch_compiled(flow))
        if config.gradients == "bfloat16":
            stack.enter_context(short_gradients(flow))
        yield


@contextmanager
def _products(precision: str) -> Iterator[None]:
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(precision)
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)
