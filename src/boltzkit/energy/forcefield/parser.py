"""Reading OpenMM's expression language: tokens, precedence, definitions; nothing of a text is ever run."""

import math
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import NoReturn, final

from boltzkit.energy.forcefield.operations import ARITY
from boltzkit.energy.forcefield.program import Constant, Lookup, Program, Variable
from boltzkit.errors import UserError, did_you_mean

__all__ = ["Parser"]

# OpenMM's rule: a^b^c is a^(b^c), and a minus sign binds more tightly than * but less than ^.
PRECEDENCE = {"+": 0, "-": 0, "*": 1, "/": 1, "^": 3}
NEGATION = 2

MAX_DEPTH = 100
MAX_QUOTED = 60

_TOKEN = re.compile(
    r"(?P<space>\s+)"
    r"|(?P<number>(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?)"
    r"|(?P<name>[^\W\d][\w.']*)"
    r"|(?P<symbol>[-+*/^(),=])"
    r"|(?P<other>.)"
)


@final
@dataclass(frozen=True)
class Token:
    """A word of an expression: its kind (number, name, symbol, other, end), text and place."""

    kind: str
    text: str
    place: int


@final
class Parser:
    """Reads one expression into a program.

    Args:
        text: the expression, with its definitions after semicolons.
        program: where the operations go.
        functions: names of the tabulated functions; they come before built-in ones of the same name.
    """

    def __init__(self, text: str, program: Program, functions: Collection[str]) -> None:
        self._text = text
        self._program = program
        self._functions = functions
        self._definitions: dict[str, int] = {}
        self._depth = 0
        self._open(0, 0)

    def read(self) -> int:
        """Return the place of the expression's value in the program.

        OpenMM reads definitions from the last to the first, each seeing those that come after it, and
        any other name is a variable. So ``p; p = p + 1`` is one more than the variable p.
        """
        ends = [i for i, letter in enumerate(self._text) if letter == ";"]
        starts = [0, *(end + 1 for end in ends)]
        pieces = list(zip(starts, [*ends, len(self._text)], strict=True))
        for start, end in reversed(pieces[1:]):
            self._open(start, end)
            if self._token.kind != "end":
                self._define()
        self._open(*pieces[0])
        return self._whole()

    def _open(self, start: int, end: int) -> None:
        self._tokens = self._tokenise(start, end)
        self._token = next(self._tokens)

    def _tokenise(self, start: int, end: int) -> Iterator[Token]:
        for match in _TOKEN.finditer(self._text, start, end):
            if match.lastgroup is not None and match.lastgroup != "space":
                yield Token(match.lastgroup, match.group(), match.start())
        yield Token("end", "", end)

    def _take(self) -> Token:
        taken = self._token
        self._token = next(self._tokens, taken)
        return taken

    def _define(self) -> None:
        name = self._take()
        if name.kind != "name" or self._token.text != "=":
            self._fail("a definition must have the form 'name = value'", name)
        self._take()
        self._definitions[name.text] = self._whole()

    def _whole(self) -> int:
        value = self._expression()
        if self._token.kind != "end":
            self._fail(f"unexpected '{self._token.text}'", self._token)
        return value

    def _expression(self, level: int = 0) -> int:
        """Read a value and the operators after it that bind at least as tightly as the level."""
        self._depth += 1
        if self._depth > MAX_DEPTH:
            self._fail(f"it is nested more than {MAX_DEPTH} deep", self._token)
        left = self._value()
        while PRECEDENCE.get(self._token.text, -1) >= level:
            operator = self._take().text
            right = self._expression(PRECEDENCE[operator] + (operator != "^"))
            left = self._program.apply(operator, left, right)
        self._depth -= 1
        return left

    def _value(self) -> int:
        token = self._take()
        if token.kind == "number":
            return self._number(token)
        if token.kind == "name":
            return self._call(token) if self._token.text == "(" else self._name(token.text)
        if token.text == "-":
            return self._program.apply("negate", self._expression(NEGATION))
        if token.text == "(":
            value = self._expression()
            self._close(token)
            return value
        self._fail(f"unexpected '{token.text}'" if token.text else "a value is missing", token)

    def _number(self, token: Token) -> int:
        value = float(token.text)
        if not math.isfinite(value):
            self._fail(f"the number {token.text} is too large", token)
        return self._program.add(Constant(value))

    def _name(self, name: str) -> int:
        if name in self._definitions:
            return self._definitions[name]
        return self._program.add(Variable(name))

    def _call(self, name: Token) -> int:
        opening = self._take()
        arguments = [self._expression()]
        while self._token.text == ",":
            self._take()
            arguments.append(self._expression())
        self._close(opening)
        if name.text in self._functions:
            return self._program.add(Lookup(name.text, tuple(arguments)))
        if name.text not in ARITY:
            known = {*ARITY, *self._functions}
            self._fail(f"unknown function '{name.text}'", name, did_you_mean(name.text, known))
        if len(arguments) != ARITY[name.text]:
            self._fail(f"{name.text} takes {ARITY[name.text]} argument(s), not {len(arguments)},", name)
        return self._program.apply(name.text, *arguments)

    def _close(self, opening: Token) -> None:
        if self._token.text != ")":
            self._fail("a bracket that is never closed", opening)
        self._take()

    def _fail(self, what: str, token: Token, advice: str = "") -> NoReturn:
        start = max(0, token.place - MAX_QUOTED // 2)
        quoted = self._text[start : start + MAX_QUOTED]
        before, after = "…" if start else "", "…" if start + MAX_QUOTED < len(self._text) else ""
        raise UserError(
            f"The expression '{before}{quoted}{after}' cannot be read: "
            f"{what} at character {token.place + 1}.{advice}"
        )
