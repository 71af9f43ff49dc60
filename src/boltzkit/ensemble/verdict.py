"""A plain answer to the question whether reweighted averages can be trusted, with its reasons.

Every check looks at the drawn samples alone. A mode that the flow never visits leaves no trace in them, so
that "trust" means: nothing in these samples speaks against the averages.

The checks are estimates themselves. Near a limit the level changes from one set of samples to the next: with
Gaussian weights of true k = 0.56 a quarter of the sets still passed as "trust".
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

from boltzkit.ensemble.metrics import Reweighting
from boltzkit.ensemble.other_hand import EXCHANGED, MIRROR
from boltzkit.notebook import as_list, as_rows
from boltzkit.weights import pareto_k_limit

__all__ = ["LEVELS", "Finding", "Level", "Verdict", "verdict"]

Level = Literal["trust", "with care", "do not trust"]

LEVELS: tuple[Level, ...] = ("trust", "with care", "do not trust")
"""From best to worst."""

Finding = tuple[Level, str]
"""What one look at an ensemble says, in a sentence, and what follows from it."""

_FEW, _TOO_FEW = 400.0, 100.0
"""Effective samples: a population of one half is known to 2.5 % and to 5 % of the total. Below 100 the normal
intervals and k̂ itself grow unreliable."""
_SOME_FAILED, _MANY_FAILED = 0.01, 0.1
"""Failed share: failed samples count as weightless. If they should not have been, log Z is off by about
that share."""
_HEAVY, _TOO_HEAVY = 0.02, 0.05
"""Share of the largest weight: by so much of its spread one sample more or less moves any average. It is at
most ESS^(−1/2), so these limits are stricter than those on the effective number."""
_VAGUE, _TOO_VAGUE = 0.1, 0.3
"""Relative standard error of the ESS: if it is large, a few weights decide the ESS, and with more samples it
usually falls. Between the two its lower end has to leave enough effective samples, and that is all: the heavy weight
that makes the ESS uncertain also widens the intervals of averages, which then hold the truth as often as they say."""
_CLIPPED = 0.6
"""Raw ESS in units of the clipped one below which a few weights carry too much."""
_APART = 4.0
"""Standard errors between the log Z of two halves."""
_FINITE_VARIANCE = 0.5
"""k̂ below which the weights have a finite variance and errors fall as n^(−1/2) (Vehtari et al., 2024)."""


@dataclass(frozen=True)
class Verdict:
    """A level and the sentences that led to it."""

    level: Level
    reasons: tuple[str, ...]

    def __str__(self) -> str:
        """Show the level, then a reason a line."""
        return "\n".join([self.level, *(f"- {reason}" for reason in self.reasons)])

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        return as_rows(self.level, {}) + as_list(self.reasons)

    def joined(self, found: Iterable[Finding]) -> "Verdict":
        """Return the worst of this verdict and further findings; what speaks for an ensemble counts if none objects."""
        told = [*((self.level, reason) for reason in self.reasons), *found]
        worst = max((self.level, *(level for level, _ in told)), key=LEVELS.index)
        return Verdict(worst, tuple(text for level, text in told if worst == "trust" or level != "trust"))


def verdict(summary: Reweighting) -> Verdict:
    """Return the worst level that any check gives, with the reasons of every check that objects."""
    if summary.effective == 0:
        return Verdict("do not trust", (f"None of the {summary.n} samples carries weight.",))
    found = [finding for check in _CHECKS if (finding := check(summary)) is not None]
    return Verdict("trust", (_all_well(summary),)).joined(found)


def _graded(value: float, care: float, distrust: float, sentence: str) -> Finding | None:
    """Object when a value exceeds its limits."""
    if value > distrust:
        return "do not trust", sentence
    return ("with care", sentence) if value > care else None


def _tail(summary: Reweighting) -> Finding | None:
    k, n = summary.pareto_k, summary.n - summary.n_failed
    if math.isnan(k):
        return "with care", "Too few weights to judge their tail: there is no Pareto k."
    limit = pareto_k_limit(n)
    meaning = (
        f"above {limit:.2f} averages of {n} samples do not settle"
        if k > limit
        else f"above {_FINITE_VARIANCE} the weights have no finite variance, and error bars but that of log Z are short"
    )
    return _graded(
        k, min(_FINITE_VARIANCE, limit), limit, f"The weights' tail is heavy, Pareto k = {k:.2f}: {meaning}."
    )


def _effective(summary: Reweighting) -> Finding | None:
    sentence = f"Only {summary.effective:.0f} effective samples of {summary.n}."
    return _graded(-summary.effective, -_FEW, -_TOO_FEW, sentence)


def _failed(summary: Reweighting) -> Finding | None:
    # What is weightless on purpose lowers the ESS, and that is all.
    failures = {reason: n for reason, n in summary.failures.items() if reason not in (MIRROR, EXCHANGED)}
    failed = sum(failures.values())
    named = ", ".join(f"{reason}: {count}" for reason, count in failures.items())
    sentence = f"{failed} of {summary.n} samples failed and carry no weight ({named})."
    return _graded(failed / summary.n, _SOME_FAILED, _MANY_FAILED, sentence)


def _largest(summary: Reweighting) -> Finding | None:
    sentence = f"One sample carries {100 * summary.largest_share:.1f} % of the total weight."
    return _graded(summary.largest_share, _HEAVY, _TOO_HEAVY, sentence)


def _uncertain(summary: Reweighting) -> Finding | None:
    relative, low = summary.ess.standard_error / summary.ess.value, summary.ess.low * summary.n
    if relative <= _VAGUE:
        return None
    sentence = (
        f"The ESS itself is uncertain by {100 * relative:.0f} %: a few weights decide it, more samples may lower it, "
        f"and at its lower end {low:.0f} effective samples are left."
    )
    few = _graded(-low, -_FEW, -_TOO_FEW, sentence)
    return ("with care", sentence) if few is None and relative > _TOO_VAGUE else few


def _clipped(summary: Reweighting) -> Finding | None:
    if summary.ess_raw >= _CLIPPED * summary.ess_clipped:
        return None
    return (
        "with care",
        f"The largest {100 * summary.clip:g} % of the weights lower the ESS from {100 * summary.ess_clipped:.1f} to "
        f"{100 * summary.ess_raw:.1f} %.",
    )


def _drifting(summary: Reweighting) -> Finding | None:
    if summary.halves <= _APART:
        return None
    return (
        "with care",
        f"log Z of the two halves of the samples differs by {summary.halves:.1f} standard errors.",
    )


_CHECKS: tuple[Callable[[Reweighting], Finding | None], ...] = (
    _tail,
    _effective,
    _failed,
    _largest,
    _uncertain,
    _clipped,
    _drifting,
)


def _all_well(summary: Reweighting) -> str:
    k = "the weights are equal" if math.isinf(summary.pareto_k) else f"Pareto k is {summary.pareto_k:.2f}"
    return (
        f"{summary.effective:.0f} effective samples of {summary.n}, {k}, the largest weight is "
        f"{100 * summary.largest_share:.2g} % of the total."
    )
