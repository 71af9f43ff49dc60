"""Checks that every analytic target makes of its numbers, with one sentence when one is wrong."""

import math

from boltzkit.errors import UserError

__all__ = ["at_least", "positive"]


def positive(value: float, target: str, what: str) -> float:
    """Return a finite number above zero, or refuse it.

    >>> positive(0.5, "gmm", "scale")
    0.5
    """
    if not (math.isfinite(value) and value > 0):
        raise UserError(f"{target} needs a finite {what} above zero, not {value}.")
    return value


def at_least(value: int, minimum: int, target: str, what: str) -> int:
    """Return an integer that is not below the minimum, or refuse it."""
    if value < minimum:
        raise UserError(f"{target} needs {what} of at least {minimum}, not {value}.")
    return value
