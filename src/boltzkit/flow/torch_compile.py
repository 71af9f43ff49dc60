"""torch.compile for what layers do between matrix products, where no C++ kernel does it: on GPUs above all."""

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn

from boltzkit.errors import UserError
from boltzkit.flow.causal_transformer import CausalLayer
from boltzkit.flow.spline_coupling import SplineCoupling

__all__ = ["torch_compiled"]


@contextmanager
def torch_compiled(flow: nn.Module) -> Iterator[None]:
    """Let torch.compile work on the spline couplings and transformer layers of a flow, then as before.

    One layer is compiled, not the flow: layers are alike, and what was made for one serves all. Values change by
    rounding errors. Couplings that run in C++ already stay as they are, and RealNVP has nothing to compile.

    Raises:
        UserError: torch cannot compile here.
    """
    from torch._dynamo.exc import TorchDynamoException  # takes a second to import

    layers = [layer for layer in flow.modules() if isinstance(layer, SplineCoupling | CausalLayer)]
    for layer in layers:
        layer.torch_compiled = True
    try:
        yield
    except TorchDynamoException as error:
        reason = str(error).strip().splitlines()[0]
        raise UserError(
            f"torch.compile fails on this machine ({reason}); train without training.compile, or install the compiler "
            "that torch needs (C++ for a CPU, Triton for a GPU)."
        ) from error
    finally:
        for layer in layers:
            layer.torch_compiled = False
