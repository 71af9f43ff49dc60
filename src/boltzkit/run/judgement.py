"""What is found for and against an answer beside its weights: by data, and by what taught the flow."""

from collections.abc import Iterator, Mapping
from typing import Any

from boltzkit.analysis import Agreement, Bridge, data_findings
from boltzkit.ensemble import Ensemble, Finding, Level
from boltzkit.simulate import Quality

__all__ = ["findings_of"]

_FEW, _TOO_FEW = 500.0, 50.0
"""Effective samples of the data's slowest observable."""
_APART = 4.0
"""Standard errors by which log Z from both sides may exceed that of the flow's samples."""


def findings_of(
    ensemble: Ensemble,
    agreement: Agreement | None,
    quality: Quality | None,
    overlap: Mapping[str, Any] | None = None,
    *,
    bridge: Bridge | None = None,
    data: str = "data that were kept aside",
) -> tuple[Finding, ...]:
    """Return every finding; the verdict is the worst of them and of what the weights say.

    Args:
        ensemble: the weighted samples.
        agreement: with data, if there are any that it can be compared with.
        quality: of the samples that the flow learned from, if they are unbiased.
        overlap: of importance samples with the target, where the flow learned biased data.
        bridge: log Z from samples of the flow and data together, if there are data.
        data: what the ensemble was compared with.
    """
    compared: Iterator[Finding] = iter(()) if agreement is None else data_findings(agreement, data)
    return (*compared, *_missed(ensemble, bridge), *_teacher(quality), *_drifting(quality), *_lost(overlap))


def _missed(ensemble: Ensemble, bridge: Bridge | None) -> Iterator[Finding]:
    if bridge is None:
        return
    numbers = ensemble.reweighting
    error = (bridge.log_z.standard_error**2 + numbers.log_z_se**2) ** 0.5
    apart = bridge.log_z.value - numbers.log_z
    if apart > _APART * error:
        yield (
            "with care",
            f"With the data, log Z is {apart:.3f} ± {error:.3f} higher than from the flow's samples alone: the flow "
            f"lacks about {100 * bridge.missed(numbers.log_z):.2g} % of the distribution.",
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


def _drifting(quality: Quality | None) -> Iterator[Finding]:
    if quality is not None and (moved := quality.drifting) is not None:
        yield (
            "with care",
            f"The samples that the flow learned from have not settled: the mean of {moved.name} moves by "
            f"{abs(moved.drift):.1f} standard errors from the first third of their frames to the last. Give more "
            "--minutes.",
        )


def _lost(overlap: Mapping[str, Any] | None) -> Iterator[Finding]:
    for basin in (overlap or {}).get("basins", ()):
        if basin["lost"]:
            yield (
                "with care",
                f"Only {basin['effective']:.0f} effective importance samples lie in {basin['name']}, which has "
                f"{100 * basin['data']:.2g} % of the biased data: the flow may lack it.",
            )
