"""What the words of an OpenMM expression mean, in torch."""

import operator
from collections.abc import Callable, Mapping
from types import MappingProxyType

import torch
from torch import Tensor

__all__ = ["ARITY", "OPERATIONS", "Operand"]

# Numbers of an expression stay Python floats, so that its tensors alone decide the dtype of the result.
Operand = Tensor | float


def _step(x: Tensor) -> Tensor:
    return (x >= 0).to(x.dtype)


def _delta(x: Tensor) -> Tensor:
    return (x == 0).to(x.dtype)


# clamp() gives the gradient at a tie to one operand, as OpenMM does, and NaN if either operand is NaN.
def _minimum(a: Operand, b: Operand) -> Tensor:
    a, b = _both(a, b)
    return torch.clamp(a, max=b)


def _maximum(a: Operand, b: Operand) -> Tensor:
    a, b = _both(a, b)
    return torch.clamp(a, min=b)


def _atan2(y: Operand, x: Operand) -> Tensor:
    return torch.atan2(*_both(y, x))


def _select(condition: Tensor, yes: Operand, no: Operand) -> Tensor:
    if not isinstance(yes, Tensor) and not isinstance(no, Tensor):
        yes = condition.new_full((), yes)  # where() of two floats would have torch's default dtype
    return torch.where(condition != 0, yes, no)


def _both(a: Operand, b: Operand) -> tuple[Tensor, Tensor]:
    """Return two operands as tensors; at least one of them is."""
    if isinstance(a, Tensor):
        return a, b if isinstance(b, Tensor) else a.new_full((), b)
    if isinstance(b, Tensor):
        return b.new_full((), a), b
    raise TypeError("two numbers are folded when an expression is read, not when it is evaluated")


# What a program consists of; Program.apply rewrites the functions that are missing here in terms of these.
OPERATIONS: Mapping[str, Callable[..., Tensor]] = MappingProxyType(
    {
        "+": operator.add,
        "-": operator.sub,
        "*": operator.mul,
        "/": operator.truediv,
        "^": torch.pow,
        "negate": operator.neg,
        "sqrt": torch.sqrt,
        "exp": torch.exp,
        "log": torch.log,
        "sin": torch.sin,
        "cos": torch.cos,
        "tan": torch.tan,
        "asin": torch.asin,
        "acos": torch.acos,
        "atan": torch.atan,
        "atan2": _atan2,
        "sinh": torch.sinh,
        "cosh": torch.cosh,
        "tanh": torch.tanh,
        "erf": torch.erf,
        "erfc": torch.erfc,
        "step": _step,
        "delta": _delta,
        "min": _minimum,
        "max": _maximum,
        "abs": torch.abs,
        "floor": torch.floor,
        "ceil": torch.ceil,
        "select": _select,
    }
)

# The functions that the text of an expression may call, and how many arguments each takes.
_REWRITTEN = ("square", "cube", "recip", "sec", "csc", "cot")
ARITY: Mapping[str, int] = MappingProxyType(
    {name: 1 for name in (*OPERATIONS, *_REWRITTEN) if name.isalpha() and name != "negate"}
    | {"atan2": 2, "min": 2, "max": 2, "select": 3}
)
