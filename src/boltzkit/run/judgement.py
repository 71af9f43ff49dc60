"""The verdict on an answer: what the weights say, whether log Z settles, and whether data disagree."""

import math
from collections.abc import Iterator, Mapping
from typing import Any

from boltzkit.analysis import Agreement
from boltzkit.ensemble import Ensemble, Level, Verdict, reweighting
from boltzkit.simulate import Quality
from boltzkit.weights import LogWeights

__all__ = ["judge_answer"]

_ORDER: tuple[Level, ...] = ("trust", "with care", "do not trust")
_CLIPPED = 0.6
"""Raw ESS in units of the clipped one below which a few weights carry too much."""
_APART = 4.0
"""Standard errors between the log Z of two halves."""
_FEW, _TOO_FEW = 500.0, 50.0
"""Effective samples of the data's slowest observable."""

Finding = tuple[Level, str]


def judge_answer(
    ensemble: Ensemble,
    agreement: Agreement | None,
    quality: Quality | None,
    overlap: Mapping[str, Any] | None = None,
) -> Verdict:
    """Return the worst of all findings, with the reasons for it.

    Args:
        ensemble: the weighted samples.
        agreement: with data that were kept aside, if there are any.
        quality: of the samples that the flow learned from, if they are unbiased.
        overlap: of importance samples with the target, where the flow learned biased data.
    """
    own = ensemble.verdict
    found = [*_weights(ensemble), *_data(agreement), *_teacher(quality), *_lost(overlap)]
    if not found:
        told = [] if agreement is None else [_agrees(agreement)]
        return Verdict(own.level, (*own.reasons, *told))
    worst = max((own.level, *(level for level, _ in found)), key=_ORDER.index)
    reasons = own.reasons if own.level != "trust" else ()
    return Verdict(worst, (*reasons, *(sentence for _, sentence in found)))


def _weights(ensemble: Ensemble) -> Iterator[Finding]:
    numbers = ensemble.reweighting
    if numbers.ess_raw < _CLIPPED * numbers.ess_clipped:
        yield (
            "with care",
            f"The largest 0.01 % of the weights lower the ESS from {100 * numbers.ess_clipped:.1f} to "
            f"{100 * numbers.ess_raw:.1f} %.",
        )
    half = ensemble.n // 2
    parts = [
        reweighting(LogWeights.from_samples(ensemble.log_prob[part], ensemble.energy[part]))
        for part in (slice(0, half), slice(half, None))
    ]
    error = math.hypot(*(part.log_z_se for part in parts))
    apart = abs(parts[0].log_z - parts[1].log_z)
    if error > 0 and apart > _APART * error:
        yield (
            "with care",
            f"log Z of the two halves of the samples differs by {apart / error:.1f} standard errors.",
        )


def _data(agreement: Agreement | None) -> Iterator[Finding]:
    if agreement is None:
        return
    for basin in agreement.missing:
        yield (
            "do not trust",
            f"The flow lacks a basin of the data: {basin.name} has {100 * basin.data.value:.2g} % of the data and "
            f"{100 * basin.ensemble.value:.2g} % of the ensemble.",
        )
    if agreement.good or agreement.missing:
        return
    worst = max(agreement.compared, key=lambda compared: abs(compared.deviation))
    yield (
        "with care",
        f"The mean of {worst.name} is {worst.ensemble.value:.4g} in the ensemble and {worst.data.value:.4g} in data "
        f"that were kept aside: {abs(worst.deviation):.1f} standard errors apart.",
    )


def _teacher(quality: Quality | None) -> Iterator[Finding]:
    if quality is None or quality.effective >= _FEW:
        return
    level: Level = "with care" if quality.effective >= _TOO_FEW else "do not trust"
    yield (
        level,
        f"The samples that the flow learned from are worth only {quality.effective:.0f} independent ones in "
        f"{quality.slowest.name}: what they have not seen, the flow may lack. Give more --minutes.",
    )


def _lost(overlap: Mapping[str, Any] | None) -> Iterator[Finding]:
    for basin in (overlap or {}).get("basins", ()):
        if basin["lost"]:
            yield (
                "with care",
                f"Only {basin['effective']:.0f} effective importance samples lie in {basin['name']}, which has "
                f"{100 * basin['data']:.2g} % of the biased data: the flow may lack it.",
            )


def _agrees(agreement: Agreement) -> str:
    return (
        f"{len(agreement.compared)} means and {len(agreement.basins)} basins agree with {agreement.n_data:,} samples "
        f"that were kept aside; the largest deviation is {agreement.largest:.1f} standard errors."
    )
