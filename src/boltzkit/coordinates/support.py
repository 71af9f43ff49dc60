"""Which configurations internal coordinates cannot represent, and by which coordinate."""

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

__all__ = ["Offender", "SupportReport", "support_report"]


@dataclass(frozen=True)
class Offender:
    """A coordinate whose window does not contain all configurations.

    Attributes:
        label: the coordinate.
        fraction: share of all configurations that lie outside its window.
        extreme: its value furthest outside, nm or rad.
        low: lower end of the window.
        high: upper end of the window.
        unit: ``nm`` or ``rad``.
    """

    label: str
    fraction: float
    extreme: float
    low: float
    high: float
    unit: str

    def __str__(self) -> str:
        return (
            f"{self.label} ({self.fraction:.2%}, up to {self.extreme:.4g} {self.unit} where the window is "
            f"{self.low:.4g} to {self.high:.4g})"
        )


@dataclass(frozen=True)
class SupportReport:
    """How many configurations lie outside the support of internal coordinates, and why.

    Attributes:
        n: number of configurations.
        n_outside: of these, finite ones outside the support.
        n_not_finite: of these, ones with a coordinate that is not a finite number, whether given or derived.
        offenders: coordinates that some configurations leave, worst first.
    """

    n: int
    n_outside: int
    n_not_finite: int
    offenders: tuple[Offender, ...]

    def __str__(self) -> str:
        if not self.n_outside and not self.n_not_finite:
            return f"All {self.n} configurations lie inside the support."
        parts = []
        if self.n_outside:
            parts.append(
                f"{self.n_outside} of {self.n} configurations ({self.n_outside / self.n:.2%}) lie outside the "
                f"support, most by {self.offenders[0]}"
            )
        if self.n_not_finite:
            parts.append(f"{self.n_not_finite} of {self.n} are not finite")
        return "; ".join(parts) + "."


def support_report(
    values: Tensor, low: Tensor, high: Tensor, labels: Sequence[str], units: Sequence[str]
) -> SupportReport:
    """Compare the values of coordinates, ``(n, coordinates)``, with their windows, ``(coordinates,)``."""
    finite = values.isfinite().all(-1)
    known = values[finite]
    excess = (low - known).clamp(min=0) + (known - high).clamp(min=0)
    outside = excess > 0
    counts = outside.sum(0)
    offenders = [
        Offender(
            label=labels[c],
            fraction=float(counts[c]) / len(values),
            extreme=float(known[excess[:, c].argmax(), c]),
            low=float(low[c]),
            high=float(high[c]),
            unit=units[c],
        )
        for c in counts.argsort(descending=True, stable=True).tolist()
        if counts[c]
    ]
    return SupportReport(
        n=len(values),
        n_outside=int(outside.any(-1).sum()),
        n_not_finite=int((~finite).sum()),
        offenders=tuple(offenders),
    )
