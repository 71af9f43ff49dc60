"""Gradients of spline couplings by products of bfloat16 matrices, on processors that have them."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn

from boltzkit.flow.relu_network import ReluNetwork

__all__ = ["short_gradients", "short_products_are_fast"]


def short_products_are_fast() -> bool:
    """Whether the processor multiplies bfloat16 matrices faster than float32 ones."""
    known = ("_is_avx512_bf16_supported", "_is_amx_tile_supported")
    return any(getattr(torch.cpu, name, lambda: False)() for name in known)


@contextmanager
def short_gradients(flow: nn.Module) -> Iterator[None]:
    """Let the backward pass of a flow's networks multiply in bfloat16 while it trains on a CPU, then no longer.

    Values stay float32: only gradients change, by some thousandths, far less than one batch's differ from the next's.
    """
    networks = [part for part in flow.modules() if isinstance(part, ReluNetwork)]
    for network in networks:
        network.short_gradients = short_products_are_fast()
    try:
        yield
    finally:
        for network in networks:
            network.short_gradients = False
