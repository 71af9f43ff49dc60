"""Round numbers along an axis, and numbers as they are printed."""

import math
from dataclasses import dataclass

__all__ = ["Tick", "linear_ticks", "log_ticks", "number"]

_SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_SUFFIXES = ((1e9, "G"), (1e6, "M"), (1e3, "k"))
_PI_TEXTS = ("−π", "−π/2", "0", "π/2", "π")


@dataclass(frozen=True)
class Tick:
    """A place on an axis and what stands beside it."""

    at: float
    text: str


def number(value: float, decimals: int = 0) -> str:
    """Write a number with a true minus sign; a dash if there is none.

    >>> number(-1.25, 1), number(float("nan")), number(float("-inf")), number(-0.0001, 2)
    ('−1.2', '–', '−∞', '0.00')
    """
    if math.isnan(value):
        return "–"
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    text = f"{value:.{decimals}f}"
    return (text.lstrip("-") if float(text) == 0 else text).replace("-", "−")


def linear_ticks(low: float, high: float, about: int = 5) -> tuple[Tick, ...]:
    """Return multiples of 1, 2 or 5 times a power of ten inside a range; quarters of a turn for a whole turn.

    >>> [tick.text for tick in linear_ticks(0.0, 1.1)]
    ['0.0', '0.2', '0.4', '0.6', '0.8', '1.0']
    >>> [tick.text for tick in linear_ticks(-180.0, 180.0)]
    ['−180', '−90', '0', '90', '180']
    >>> [tick.text for tick in linear_ticks(0.0, 4.2e6)]
    ['0', '1M', '2M', '3M', '4M']
    """
    if math.isclose(low, -math.pi, rel_tol=1e-3) and math.isclose(high, math.pi, rel_tol=1e-3):
        return tuple(Tick(quarter * math.pi / 2, _PI_TEXTS[quarter + 2]) for quarter in range(-2, 3))
    whole_turn = math.isclose(high - low, 360.0, rel_tol=1e-3)
    step = 90.0 if whole_turn else _step((high - low) / about)
    slack = 1e-6 * (high - low)
    places = range(math.ceil((low - slack) / step), math.floor((high + slack) / step) + 1)
    largest = max((abs(place * step) for place in places), default=0.0)
    # Four digits are still easy to read; from five on they are counted in thousands.
    scale, suffix = next((pair for pair in _SUFFIXES if largest >= max(1e4, pair[0])), (1.0, ""))
    decimals = max(0, -math.floor(math.log10(step / scale) + 1e-9))
    return tuple(
        Tick(place * step, number(place * step / scale, decimals) + suffix if place or not suffix else "0")
        for place in places
    )


def _step(raw: float) -> float:
    size = 10.0 ** math.floor(math.log10(raw))
    # A few ticks more than asked for look better than half as many.
    return size * next(factor for factor in (1.0, 2.0, 5.0, 10.0) if factor * size >= 0.8 * raw)


def log_ticks(low: float, high: float) -> tuple[Tick, ...]:
    """Return powers of ten inside a range, at most about five of them.

    >>> [tick.text for tick in log_ticks(0.01, 2.0)]
    ['10⁻²', '10⁻¹', '10⁰']
    """
    first, last = math.ceil(math.log10(low) - 1e-9), math.floor(math.log10(high) + 1e-9)
    stride = max(1, math.ceil((last - first) / 5))
    return tuple(
        Tick(10.0**power, "10" + str(power).translate(_SUPERSCRIPT))
        for power in range(first, last + 1, stride)
    )
