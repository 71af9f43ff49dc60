"""A number that never comes without its uncertainty."""

import math
from dataclasses import dataclass
from statistics import NormalDist

__all__ = ["Estimate", "normal_quantile"]


@dataclass(frozen=True)
class Estimate:
    """An estimated number with its confidence interval.

    >>> print(Estimate.symmetric(1.5, standard_error=0.1))
    1.5 [1.304, 1.696] (95 %)

    Attributes:
        value: the estimate.
        low: lower end of the interval.
        high: upper end of the interval.
        standard_error: estimated standard deviation of `value` over repetitions.
        confidence: probability with which such intervals hold the truth.
    """

    value: float
    low: float
    high: float
    standard_error: float
    confidence: float = 0.95

    @classmethod
    def symmetric(cls, value: float, standard_error: float, confidence: float = 0.95) -> "Estimate":
        """Return value ± z·standard_error, the interval of an asymptotically normal estimate."""
        half = normal_quantile(confidence) * standard_error
        return cls(value, value - half, value + half, standard_error, confidence)

    def __str__(self) -> str:
        """Show the value, the interval and its confidence."""
        return f"{self.value:.4g} [{self.low:.4g}, {self.high:.4g}] ({100 * self.confidence:g} %)"

    def _repr_html_(self) -> str:
        """What a notebook shows: no number without its interval, and no digit too many."""
        return str(self)


def normal_quantile(confidence: float) -> float:
    """Return z with P(|normal| < z) = confidence, 1.96 for 95 %."""
    if not 0 < confidence < 1 or math.isnan(confidence):
        raise ValueError(f"A confidence lies between 0 and 1, not {confidence}.")
    return NormalDist().inv_cdf(0.5 * (1 + confidence))
