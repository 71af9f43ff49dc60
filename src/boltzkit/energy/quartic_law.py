"""The one-dimensional law with a quartic energy: the tilted double well behind two targets."""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, final

import numpy as np
import torch
from torch import Tensor

from boltzkit.energy.validation import positive
from boltzkit.errors import UserError

__all__ = ["QuarticLaw"]

_DEPTH = 60.0  # energies further above the minimum are left out: their mass is below 1e-24 of the whole
_POINTS = 2**16
_CELLS = 4096
_MAX_BARRIER = 1e5  # above it the rounding of u alone comes near the promised 1e-10


class _Envelope(NamedTuple):
    """A step function above the density; a floor is the lowest energy in [left, left + width]."""

    left: Tensor
    width: Tensor
    floor: Tensor
    cumulative: Tensor


@final
@dataclass(frozen=True)
class QuarticLaw:
    r"""The density p(x) ∝ exp(−u(x)) on the real line with a quartic energy.

    $$u(x) = a x^4 - b x^2 + c x$$

    Args:
        a: weight of the quartic, above zero.
        b: weight of the parabola; above zero there are two wells near ±√(b/2a), b²/4a below the barrier.
        c: tilt; above zero the left well is the deeper one.
    """

    a: float
    b: float
    c: float

    def __post_init__(self) -> None:
        """Refuse laws that cannot be normalised or integrated to the promised precision."""
        positive(self.a, "a quartic well", "weight a")
        if not (math.isfinite(self.b) and math.isfinite(self.c)):
            raise UserError(f"a quartic well needs finite weights, not b = {self.b}, c = {self.c}.")
        if self.b > 0 and self.b**2 / (4 * self.a) > _MAX_BARRIER:
            raise UserError(f"a quartic well needs a barrier b²/4a below {_MAX_BARRIER:g}: make b smaller.")

    def energy(self, x: Tensor) -> Tensor:
        """Return u(x), elementwise."""
        return ((self.a * x * x - self.b) * x + self.c) * x

    @cached_property
    def log_z(self) -> float:
        """Log of ∫ exp(−u(x)) dx, to 1e-10.

        The trapezoidal rule converges geometrically on an analytic integrand that vanishes at both ends: its
        relative error is about exp(−2π²(σ/h)²) for wells of width σ and spacing h, and σ/h > 10 at the
        highest barrier accepted.
        """
        low, high = self._bounds
        x = torch.linspace(low, high, _POINTS, dtype=torch.float64)
        return float(torch.logsumexp(-self.energy(x), dim=0)) + math.log((high - low) / (_POINTS - 1))

    def sample(self, n: int, generator: torch.Generator) -> Tensor:
        """Return n exact independent samples, ``(n,)``, by rejection from a step function above the density.

        Rejection makes no discretisation error: the law is exact up to the rounding of float64 and the mass
        below 1e-24 outside the step function. At the defaults 99 % of the proposals are accepted.
        """
        envelope = _Envelope(*(part.to(generator.device) for part in self._envelope))
        accepted = [self._propose(n, envelope, generator)]
        while missing := n - sum(len(part) for part in accepted):
            accepted.append(self._propose(missing, envelope, generator))
        return torch.cat(accepted)

    def _propose(self, n: int, envelope: _Envelope, generator: torch.Generator) -> Tensor:
        """Propose n points and return those accepted."""
        uniform = torch.rand(3, n, generator=generator, device=generator.device, dtype=torch.float64)
        which, where, accept = uniform.unbind()
        cell = torch.searchsorted(envelope.cumulative, which * envelope.cumulative[-1], right=True)
        x = envelope.left[cell] + envelope.width[cell] * where
        return x[accept.log() < envelope.floor[cell] - self.energy(x)]

    @cached_property
    def _stationary(self) -> Tensor:
        """Every point with u' = 0, and perhaps a real part of a complex root, which does no harm below."""
        roots = np.roots([4 * self.a, 0.0, -2 * self.b, self.c])
        return torch.tensor(np.real(roots), dtype=torch.float64)

    @cached_property
    def _bounds(self) -> tuple[float, float]:
        """The outermost points with an energy of _DEPTH above the minimum."""
        level = float(self.energy(self._stationary).min()) + _DEPTH
        roots = np.roots([self.a, 0.0, -self.b, self.c, -level])
        crossings = np.real(roots[np.isreal(roots)])
        return float(crossings.min()), float(crossings.max())

    @cached_property
    def _envelope(self) -> _Envelope:
        # With the stationary points among the edges u is monotone in every cell, so the lower of its two ends
        # is its true minimum and the step function is nowhere below the density.
        grid = torch.linspace(*self._bounds, _CELLS + 1, dtype=torch.float64)
        edges = torch.cat([grid, self._stationary]).sort().values
        energy = self.energy(edges)
        floor, width = torch.minimum(energy[:-1], energy[1:]), edges.diff()
        mass = width * torch.exp(floor.min() - floor)
        return _Envelope(edges[:-1], width, floor, mass.cumsum(0))
