"""How numbers look: the same words and digits in progress, results and tables."""

import math
import statistics
from collections.abc import Sequence
from typing import Any

from boltzkit.errors import UserError

__all__ = ["aligned", "duration", "measured", "number", "step_figures", "whole_number"]

_WATCHED = {
    "loss": "loss",
    "dispersion": "dispersion",
    "validation_nll": "validation NLL",
    "validation_outside": "outside support",
    "exponent": "λ",
    "ess": "ESS",
    "evaluations": "evaluations",
    "failed_steps": "failed steps",
    "left_out": "left out",
}
_ONLY_IF_ANY = ("validation_outside", "failed_steps", "left_out")


def step_figures(line: dict[str, Any]) -> dict[str, str]:
    """Return the numbers a person watches of one metrics line, by name; replicas by their median.

    >>> step_figures({"step": 10, "loss": [2.0, 4.0, 3.0], "failed_steps": [0, 0, 0], "evaluations": 1500})
    {'loss': '3.000', 'evaluations': '1,500'}
    >>> step_figures({"exponent": 0.31, "ess": 0.05, "evaluations": 1500, "budget": 1000000.0})
    {'λ': '0.3100', 'ESS': '0.05000', 'evaluations': '1,500 of 1,000,000'}
    """
    shown = {}
    for key, label in _WATCHED.items():
        value = line.get(key)
        if value is None or (key in _ONLY_IF_ANY and not _total(value)):
            continue
        shown[label] = number(_total(value)) if key in _ONLY_IF_ANY else _median(value)
    if "evaluations" in shown and line.get("budget") is not None:
        shown["evaluations"] += f" of {number(int(line['budget']))}"
    return shown


def number(value: float | None) -> str:
    """Return an integer with thousands marked, another number with four digits; missing ones say so.

    >>> number(12000), number(2.71704), number(float("nan")), number(None)
    ('12,000', '2.717', 'nan', 'none')
    """
    if value is None:
        return "none"
    return f"{value:,}" if isinstance(value, int) else f"{value:#.4g}"


def whole_number(value: float, option: str) -> int:
    """Return what was typed for a count, which may be as short as 1e6.

    >>> whole_number(1e6, "--evaluations")
    1000000
    """
    if not (math.isfinite(value) and value >= 1 and value == int(value)):
        raise UserError(f"{option} takes a whole number such as 1e6, not {value:g}.")
    return int(value)


def measured(value: float, error: float) -> str:
    """Return a value with its standard error, both to the second digit of the error.

    >>> measured(2.71704, 0.0123), measured(-3.0, float("nan")), measured(4.2e-60, 3.3e-60)
    ('2.717 ± 0.012', '-3.000 ± nan', '4.2e-60 ± 3.3e-60')
    """
    if not (math.isfinite(error) and error > 0):
        return f"{number(value)} ± {number(error)}"
    digits = max(0, 1 - math.floor(math.log10(error)))
    if digits > 9 and abs(value) < 1e-6:
        return f"{value:.1e} ± {error:.1e}"
    return f"{value:.{digits}f} ± {error:.{digits}f}"


def duration(seconds: float) -> str:
    """Return a time a person can read.

    >>> duration(42.4), duration(200), duration(7300)
    ('42 s', '3 min 20 s', '2 h 01 min')
    """
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"


def aligned(rows: Sequence[Sequence[str]]) -> str:
    """Return rows of words as columns.

    >>> print(aligned([("ESS", "90 %"), ("log Z", "1.2")]))
    ESS    90 %
    log Z  1.2
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    padded = ("  ".join(word.ljust(width) for word, width in zip(row, widths, strict=True)) for row in rows)
    return "\n".join(line.rstrip() for line in padded)


def _total(value: Any) -> int:
    return sum(value) if isinstance(value, list) else value


def _median(value: Any) -> str:
    if not isinstance(value, list):
        return number(value)
    finite = [v for v in value if v is not None and math.isfinite(v)]
    lost = len(value) - len(finite)
    remark = f" ({lost} of {len(value)} not finite)" if lost else ""
    return (number(statistics.median(finite)) if finite else "none") + remark
