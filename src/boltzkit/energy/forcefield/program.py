"""An expression as a list of operations in which each thing is computed once."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import final

import torch

from boltzkit.energy.forcefield.operations import OPERATIONS

__all__ = ["Constant", "Lookup", "Node", "Operation", "Program", "Variable", "guarded"]

# Longest integer power that becomes products; beyond it, rounding makes pow() the better choice.
MAX_PRODUCT_POWER = 64

# The argument whose bad values give a function an infinite derivative (or none), by its place.
DELICATE = {"/": 1, "^": 0} | dict.fromkeys(("sqrt", "exp", "log", "tan", "asin", "acos", "sinh", "cosh"), 0)
HARMLESS = 0.5  # every delicate function is smooth and moderate here


@final
@dataclass(frozen=True)
class Constant:
    """A number."""

    value: float


@final
@dataclass(frozen=True)
class Variable:
    """A free variable, given when the expression is evaluated."""

    name: str


@final
@dataclass(frozen=True)
class Operation:
    """A built-in function or operator of earlier nodes, known by their places."""

    function: str
    arguments: tuple[int, ...]


@final
@dataclass(frozen=True)
class Lookup:
    """A tabulated function of earlier nodes, given by name when the expression is evaluated."""

    function: str
    arguments: tuple[int, ...]


Node = Constant | Variable | Operation | Lookup


@final
class Program:
    """Nodes in the order of evaluation: arguments come before their users, and equal nodes are one.

    Each method that adds a node returns its place. Operations of constants become constants, and
    powers with a constant integer become products, which are fast and smooth at zero.

    Attributes:
        nodes: what has been added so far.
    """

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self._places: dict[Node, int] = {}

    def add(self, node: Node) -> int:
        """Return the place of a node, which is added if it is new."""
        place = self._places.setdefault(node, len(self.nodes))
        if place == len(self.nodes):
            self.nodes.append(node)
        return place

    def apply(self, function: str, *arguments: int) -> int:
        """Add a built-in function of nodes, in the simplest form known."""
        first = arguments[0]
        match function:
            case "square":
                return self._power(first, 2)
            case "cube":
                return self._power(first, 3)
            case "recip":
                return self.apply("/", self.add(Constant(1.0)), first)
            case "sec" | "csc" | "cot":
                inverse = {"sec": "cos", "csc": "sin", "cot": "tan"}[function]
                return self.apply("recip", self.apply(inverse, first))
        constants = [self._constant(place) for place in arguments]
        known = [value for value in constants if value is not None]
        if len(known) == len(arguments):
            return self.add(Constant(_evaluate(function, known)))
        if function == "^" and constants[1] is not None:
            return self._constant_power(first, constants[1])
        if function == "select" and constants[0] is not None:
            return arguments[1] if constants[0] != 0 else arguments[2]
        return self.add(Operation(function, arguments))

    def replay(self, nodes: Sequence[Node], constants: Mapping[str, float]) -> int:
        """Add another program's nodes, with some variables made constant; return the place of the last."""
        places: list[int] = []
        for node in nodes:
            match node:
                case Operation():
                    places.append(self.apply(node.function, *(places[i] for i in node.arguments)))
                case Lookup():
                    places.append(self.add(Lookup(node.function, tuple(places[i] for i in node.arguments))))
                case Variable() if node.name in constants:
                    places.append(self.add(Constant(float(constants[node.name]))))
                case _:
                    places.append(self.add(node))
        return places[-1]

    def _constant(self, place: int) -> float | None:
        node = self.nodes[place]
        return node.value if isinstance(node, Constant) else None

    def _constant_power(self, base: int, exponent: float) -> int:
        if exponent.is_integer() and abs(exponent) <= MAX_PRODUCT_POWER:
            return self._power(base, int(exponent))
        if abs(exponent) == 0.5:
            root = self.apply("sqrt", base)
            return root if exponent > 0 else self.apply("recip", root)
        return self.add(Operation("^", (base, self.add(Constant(exponent)))))

    def _power(self, base: int, exponent: int) -> int:
        """Add an integer power by repeated squaring, of the reciprocal if it is negative."""
        if exponent == 0:
            return self.add(Constant(1.0))
        if exponent < 0:
            return self._power(self.apply("recip", base), -exponent)
        half = self._power(self.apply("*", base, base), exponent // 2) if exponent > 1 else base
        return self.apply("*", half, base) if exponent > 1 and exponent % 2 else half


def _evaluate(function: str, numbers: Sequence[float]) -> float:
    return float(OPERATIONS[function](*(torch.tensor(number, dtype=torch.float64) for number in numbers)))


def guarded(nodes: Sequence[Node], root: int) -> tuple[Node, ...]:
    """Return what a node needs, in order, with gradients kept finite in branches that are not taken.

    The gradient of ``select(c, a, b)`` in the branch that is not taken is zero, but zero times the
    infinite slope of, say, a square root at zero is NaN. A delicate function that only matters in one
    branch therefore sees a harmless number in place of its argument wherever the other branch is taken.
    """
    guards = _guards(nodes, root)
    program = Program()
    places: dict[int, int] = {}
    waiting = [root]
    while waiting:
        node = nodes[waiting[-1]]
        guard = sorted(guards[waiting[-1]]) if _is_delicate(node, nodes) else []
        needed = [*_arguments(node), *(condition for condition, _ in guard)]
        missing = [place for place in needed if place not in places]
        if missing:
            waiting.extend(missing)
            continue
        literals = [(places[condition], taken) for condition, taken in guard]
        places[waiting.pop()] = _copy(program, node, [places[i] for i in _arguments(node)], literals)
    return tuple(program.nodes)


def _guards(nodes: Sequence[Node], root: int) -> dict[int, frozenset[tuple[int, bool]]]:
    """Return, for each node that the root needs, the conditions that hold whenever its value matters.

    Each condition is (place of its node, whether it is non-zero). A node's own guard holds what all its
    users have in common, so that it is never stronger than it may be.
    """
    guards: dict[int, frozenset[tuple[int, bool]]] = {root: frozenset()}
    for place in range(root, -1, -1):
        if place not in guards:
            continue
        node = nodes[place]
        choice = isinstance(node, Operation) and node.function == "select"
        for slot, argument in enumerate(_arguments(node)):
            branch = {(_arguments(node)[0], slot == 1)} if choice and slot > 0 else set()
            guard = guards[place] | branch
            guards[argument] = guards[argument] & guard if argument in guards else guard
    return guards


def _arguments(node: Node) -> tuple[int, ...]:
    return node.arguments if isinstance(node, Operation | Lookup) else ()


def _is_delicate(node: Node, nodes: Sequence[Node]) -> bool:
    if not isinstance(node, Operation) or node.function not in DELICATE:
        return False
    return not isinstance(nodes[node.arguments[DELICATE[node.function]]], Constant)


def _copy(program: Program, node: Node, arguments: list[int], guard: list[tuple[int, bool]]) -> int:
    """Add a node to a program, its delicate argument replaced where a condition of its guard fails."""
    if isinstance(node, Lookup):
        return program.add(Lookup(node.function, tuple(arguments)))
    if not isinstance(node, Operation):
        return program.add(node)
    for condition, taken in guard:
        slot = DELICATE[node.function]
        harmless = program.add(Constant(HARMLESS))
        branches = (arguments[slot], harmless) if taken else (harmless, arguments[slot])
        arguments[slot] = program.apply("select", condition, *branches)
    return program.add(Operation(node.function, tuple(arguments)))
