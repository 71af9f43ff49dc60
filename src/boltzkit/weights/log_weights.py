"""Log importance weights as one small value.

The sign convention of the whole project stands here: with reduced energy u and flow density q,

    log w(x) = −u(x) − log q(x),   x ~ q,

so that the mean of w estimates Z = ∫ exp(−u(x)) dx.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from boltzkit.errors import UserError

__all__ = ["LogWeights"]


@dataclass(frozen=True, eq=False)
class LogWeights:
    """The log weights of all samples drawn, failed ones included with weight zero.

    The number of samples n is always the number drawn: a failed sample is counted, named and weightless,
    because leaving it out would change every mean without a word. Values live in float64 on the CPU, since
    some devices have no float64.

    Attributes:
        values: log w, ``(n,)``, float64; −inf for a weightless sample; never NaN or +inf.
        failures: how many samples are weightless for which reason; the counts sum to `n_failed`.
    """

    values: Tensor
    failures: Mapping[str, int]

    def __post_init__(self) -> None:
        if self.values.ndim != 1 or self.values.dtype != torch.float64 or self.values.numel() == 0:
            raise ValueError("Log weights are a one-dimensional, non-empty float64 tensor.")
        if (self.values.isnan() | self.values.isposinf()).any():
            raise ValueError("Log weights are finite, or -inf for a weightless sample.")
        if sum(self.failures.values()) != self.n_failed:
            raise ValueError("Every weightless sample has exactly one named reason.")

    @classmethod
    def from_samples(
        cls, log_prob: Tensor, energy: Tensor, named: Mapping[str, Tensor] | None = None
    ) -> "LogWeights":
        """Weigh samples of q against exp(−u).

        An energy of −inf, or a log weight of +inf, would outweigh everything else: it is a failure like NaN.

        Args:
            log_prob: log q(x), ``(n,)``.
            energy: reduced energy u(x), ``(n,)``.
            named: samples that are weightless for reasons known beforehand, ``(n,)`` each, by reason.
        """
        if log_prob.shape != energy.shape or log_prob.ndim != 1 or log_prob.numel() == 0:
            raise UserError(
                "Weights need one log_prob and one energy per sample, but their shapes are "
                f"{tuple(log_prob.shape)} and {tuple(energy.shape)}."
            )
        log_prob, energy = log_prob.detach().cpu().double(), energy.detach().cpu().double()
        failed, failures = torch.zeros(len(energy), dtype=torch.bool), {}
        for reason, mask in (*(named or {}).items(), *_reasons(log_prob, energy)):
            if count := int((mask & ~failed).sum()):
                failures[reason] = count
            failed |= mask
        return cls((-energy - log_prob).masked_fill(failed, -torch.inf), failures)

    @property
    def n(self) -> int:
        """The number of samples drawn."""
        return len(self.values)

    @property
    def n_failed(self) -> int:
        """The number of weightless samples."""
        return int(self.values.isneginf().sum())

    @property
    def n_weighted(self) -> int:
        """The number of samples that carry weight."""
        return self.n - self.n_failed

    @property
    def largest_share(self) -> float:
        """The largest normalised weight: how much of every average one sample decides."""
        return float(self.normalised().max())

    @property
    def ess_fraction(self) -> float:
        """The effective number over the number drawn, the paper's ESS."""
        return self.ess() / self.n

    def normalised(self) -> Tensor:
        """Return w̄ = w/Σw, ``(n,)``, which sums to 1."""
        self._require_weight()
        return torch.softmax(self.values, dim=0)

    def ess(self) -> float:
        """Return Kish's effective number of samples, (Σw)²/Σw²; 0 if no sample carries weight."""
        if self.n_weighted == 0:
            return 0.0
        log_sum = torch.logsumexp(self.values, dim=0)
        return float(torch.exp(2 * log_sum - torch.logsumexp(2 * self.values, dim=0)))

    def log_mean(self) -> float:
        """Return log(Σw/n), the estimate of log Z."""
        self._require_weight()
        return float(torch.logsumexp(self.values, dim=0)) - math.log(self.n)

    def log_mean_error(self) -> float:
        r"""Return the standard error of log Z by the delta method; NaN for a single sample.

        $$\mathrm{se}(\log \hat Z) \approx \frac{\mathrm{sd}(w)}{\sqrt n\,\bar w}
          = \sqrt{\frac{n/\mathrm{ESS} - 1}{n - 1}}$$

        It needs a finite variance of w, that is a Pareto k below 0.5, and cannot see modes that q misses.
        """
        self._require_weight()
        if self.n == 1:
            return math.nan
        return math.sqrt(max(self.n / self.ess() - 1, 0.0) / (self.n - 1))

    def clipped(self, fraction: float = 1e-4) -> "LogWeights":
        """Set the top int(fraction·n) weights to the smallest of that set (the paper's ESS).

        With the default this is no weight at all below 10⁴ samples. It biases every average: for the paper's
        tables only. A weightless sample never becomes the ceiling.
        """
        top = self._top(fraction)
        if len(top) == 0:
            return self
        return LogWeights(self.values.clamp(max=float(self.values[top].min())), self.failures)

    def discarded(self, fraction: float) -> "LogWeights":
        """Drop the samples of the top int(fraction·n) weights (the paper's Cartesian tables use 0.2 %)."""
        kept = torch.ones(self.n, dtype=torch.bool)
        kept[self._top(fraction)] = False
        return LogWeights(self.values[kept], self.failures)

    def resample(self, n: int, generator: torch.Generator) -> Tensor:
        """Draw n sample indices with replacement, with probability w̄.

        A search in the cumulative sum takes any number of samples; `torch.multinomial` stops at 2²⁴.
        """
        cumulative = self.normalised().cumsum(0)
        uniform = torch.rand(n, generator=generator, dtype=torch.float64) * cumulative[-1]
        # right=True: a weightless sample repeats its predecessor's sum and so is never the first one above.
        return torch.searchsorted(cumulative, uniform, right=True)

    def _top(self, fraction: float) -> Tensor:
        """Return the indices of the top int(fraction·n) weights."""
        if not 0 <= fraction < 1:
            raise ValueError(f"A fraction of the weights lies in [0, 1), not {fraction}.")
        count = min(int(fraction * self.n), self.n_weighted)
        return torch.topk(self.values, count, sorted=False).indices

    def _require_weight(self) -> None:
        if self.n_weighted == 0:
            named = ", ".join(f"{count} times {reason}" for reason, count in self.failures.items())
            raise UserError(
                f"None of the {self.n} samples carries weight ({named}): check the flow and the energy."
            )


def _reasons(log_prob: Tensor, energy: Tensor) -> Iterator[tuple[str, Tensor]]:
    """Yield each way in which a sample can fail and the samples it befalls; the first reason counts."""
    for name, value in (("energy", energy), ("log_prob", log_prob)):
        yield f"{name} is NaN", value.isnan()
        yield f"{name} is +inf", value.isposinf()
        yield f"{name} is -inf", value.isneginf()
    yield "log weight overflows", ~(energy + log_prob).isfinite()
