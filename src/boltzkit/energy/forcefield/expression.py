"""OpenMM's expression strings as functions of torch tensors."""

from collections.abc import Callable, Collection, Iterable, Mapping
from functools import reduce
from typing import Self, final

import torch
from torch import Tensor

from boltzkit.energy.forcefield.operations import OPERATIONS, Operand
from boltzkit.energy.forcefield.parser import Parser
from boltzkit.energy.forcefield.program import Constant, Lookup, Node, Operation, Program, Variable, guarded
from boltzkit.errors import UserError

__all__ = ["Expression"]

Functions = Mapping[str, Callable[..., Tensor]]


@final
class Expression:
    """A formula such as ``0.5*k*(r-r0)^2; r0 = 0.1``, with the meaning that OpenMM gives it.

    Evaluation is a fixed list of torch operations, so that it can be differentiated and compiled. Every
    operation that occurs more than once is done once, integer powers are products, and the slopes of a
    branch that ``select`` does not take stay out of the gradient even where they are infinite. What is
    left to the writer of a formula: ``min``, ``max`` and products with ``step`` do not protect their
    operands, so ``max(1, sqrt(x))`` has no gradient at x = 0, nor has a formula where its own slope is
    infinite. NaN passes through ``min`` and ``max``.

    >>> energy = Expression.parse("0.5*k*x^2; x = r - r0")
    >>> sorted(energy.variables)
    ['k', 'r', 'r0']
    >>> energy({"k": 4.0, "r": torch.tensor([1.0, 2.0]), "r0": 1.0})
    tensor([0., 2.])

    Attributes:
        text: the formula as it was written.
        variables: the names that must have values.
        functions: the names of tabulated functions that it calls.
    """

    def __init__(self, text: str, nodes: Iterable[Node], root: int) -> None:
        self.text = text
        self._plain = tuple(nodes)[: root + 1]
        self._nodes = guarded(self._plain, root)
        self._finished = _finished(self._nodes)
        self.variables = frozenset(node.name for node in self._nodes if isinstance(node, Variable))
        self.functions = frozenset(node.function for node in self._nodes if isinstance(node, Lookup))

    @classmethod
    def parse(cls, text: str, functions: Collection[str] = ()) -> Self:
        """Read a formula.

        Args:
            text: the formula, then its definitions: ``value; a = ...; b = ...``. A definition may use
                those after it; a name that is not defined further on is a variable.
            functions: names of tabulated functions that it may call.

        Raises:
            UserError: if it cannot be read, with the place and the reason.
        """
        program = Program()
        root = Parser(text, program, functions).read()
        return cls(text, program.nodes, root)

    def bind(self, constants: Mapping[str, float]) -> Self:
        """Return the formula with some variables fixed for good, and simplified for it."""
        program = Program()
        root = program.replay(self._plain, constants)
        return type(self)(self.text, program.nodes, root)

    def __call__(self, values: Mapping[str, Operand], functions: Functions | None = None) -> Tensor:
        """Evaluate the formula.

        Args:
            values: a tensor or number for every variable; tensors broadcast. Numbers and tensors of
                integers take the dtype of the other tensors (float64 if there are none).
            functions: the tabulated functions by name, each of as many tensors as it has arguments.

        Returns:
            The value, in the broadcast shape of the variables that matter.
        """
        functions = functions or {}
        self._require(values, functions)
        dtype, device = _kind(values[name] for name in self.variables)

        def tensor(value: Operand) -> Tensor:
            if isinstance(value, Tensor) and value.is_floating_point():
                return value
            return torch.as_tensor(value, dtype=dtype, device=device)

        results: dict[int, Operand] = {}
        for place, node in enumerate(self._nodes):
            match node:
                case Constant():
                    results[place] = node.value
                case Variable():
                    results[place] = tensor(values[node.name])
                case Operation():
                    results[place] = OPERATIONS[node.function](*[results[i] for i in node.arguments])
                case Lookup():
                    results[place] = functions[node.function](*[tensor(results[i]) for i in node.arguments])
            for old in self._finished[place]:
                del results[old]
        return tensor(results[len(self._nodes) - 1])

    def _require(self, values: Mapping[str, Operand], functions: Functions) -> None:
        missing = [name for name in self.variables if name not in values]
        if missing:
            raise UserError(f"The expression '{self.text}' needs a value for {', '.join(sorted(missing))}.")
        missing = [name for name in self.functions if name not in functions]
        if missing:
            raise UserError(f"The expression '{self.text}' needs the function {', '.join(sorted(missing))}.")


def _kind(values: Iterable[Operand]) -> tuple[torch.dtype, torch.device]:
    """Return the dtype that all floating-point tensors can be cast to, and the device they are on."""
    tensors = [value for value in values if isinstance(value, Tensor)]
    floating = [value.dtype for value in tensors if value.is_floating_point()]
    dtype = reduce(torch.promote_types, floating) if floating else torch.float64
    return dtype, tensors[0].device if tensors else torch.device("cpu")


def _finished(nodes: tuple[Node, ...]) -> tuple[tuple[int, ...], ...]:
    """Return the nodes whose last user is each node: their values need not be kept any longer."""
    last: dict[int, int] = {}
    for place, node in enumerate(nodes):
        if isinstance(node, Operation | Lookup):
            last.update(dict.fromkeys(node.arguments, place))
    finished: list[list[int]] = [[] for _ in nodes]
    for old, user in last.items():
        finished[user].append(old)
    return tuple(map(tuple, finished))
