"""What physics knows before any learning: stiff coordinates fluctuate about the minimum, torsions turn freely.

Bonds, angles and the torsions that hold an atom to its siblings get the normal distribution of the energy to second
order around the reference structure; torsions about bonds are uniform. A flow that starts from there has no atom out
of place, only atoms that overlap.

Angles that fit one basin do not fit another, whose samples then weigh too little, and the basin is lost on the way.
`relaxed` therefore lets the stiff coordinates of random conformers follow their forces first.
"""

import math
from copy import deepcopy
from typing import NamedTuple

import torch
from torch import Tensor

from boltzkit.coordinates import InternalCoordinates
from boltzkit.energy import Target
from boltzkit.errors import UserError
from boltzkit.flow import Chain, Flow
from boltzkit.method.annealing.path import trust_region
from boltzkit.objective import counted
from boltzkit.ranks import spread_over_ranks

__all__ = ["HarmonicStart", "coordinates_of", "turning_dims"]

_SHIFT = 1e-4
"""Of a central difference, in units of the box."""
_WIDEST = 0.15
"""Largest standard deviation of a stiff coordinate, in units of the box."""
_FURTHEST = 2.0
"""Of such a step along one direction, in standard deviations: atoms that overlap push without measure."""
_JITTER = 0.02
"""Standard deviation of torsions about a conformer's, in turns."""
_TURN, _FURTHEST_TURN = 0.03, 0.02
"""Standard deviation of a torsion that is taken for its stiffness, and its largest step, in turns."""
_SHARPEST = 0.1
"""Largest factor of energies in the choice of conformers: overlaps go, basins stay."""


class HarmonicStart(NamedTuple):
    """Samples in the unit box of internal coordinates.

    Args:
        centre: the reference structure, ``(dim,)``.
        stiff: dims that fluctuate about it.
        factor: a square root of their covariance, ``(stiff, stiff)``.
        conformers: relaxed structures that samples lie about, ``(n, dim)``; none where torsions are uniform.
        shares: how often each is taken, ``(n,)``.
    """

    centre: Tensor
    stiff: Tensor
    factor: Tensor
    conformers: Tensor | None = None
    shares: Tensor | None = None

    @classmethod
    def of(
        cls, coordinates: InternalCoordinates, target: Target, positions: Tensor, temperature: float
    ) -> "HarmonicStart":
        """Expand the energy around a structure; costs two evaluations with gradient per dim.

        Args:
            coordinates: the box.
            target: the reduced energy.
            positions: the structure, ``(atoms, 3)`` nm.
            temperature: of the fluctuations, in units of the target's.
        """
        coordinates = deepcopy(coordinates).cpu()  # in double precision, which not every device has
        centre = coordinates.inverse(positions.double().unsqueeze(0))[0][0]
        shifts = _SHIFT * torch.eye(coordinates.dim, dtype=torch.float64)
        points = torch.cat([centre + shifts, centre - shifts])
        with counted(target):
            _, slopes = spread_over_ranks(
                lambda part: _potential_and_slopes(coordinates, target, part), points
            )
        hessian = (slopes[: coordinates.dim] - slopes[coordinates.dim :]) / (2 * _SHIFT)
        stiff = torch.tensor(sorted(set(range(coordinates.dim)) - set(turning_dims(coordinates))))
        block = 0.5 * (hessian + hessian.T)[stiff][:, stiff]
        stiffness, directions = torch.linalg.eigh(block)
        # Directions that are soft or unstable are bounded: they are left to training.
        width = (stiffness / temperature).clamp(min=_WIDEST**-2).rsqrt()
        return cls(centre, stiff, directions * width)

    def relaxed(
        self,
        coordinates: InternalCoordinates,
        target: Target,
        n: int,
        temperature: float,
        generator: torch.Generator,
        steps: int = 3,
        torsions: bool = False,
    ) -> "HarmonicStart":
        """Return a start about n conformers of random torsions, their stiff coordinates relaxed by Newton steps.

        Costs ``steps`` evaluations with gradient each. Conformers without a finite energy are left out.

        Args:
            coordinates: the box.
            target: the reduced energy.
            n: conformers.
            temperature: of the fluctuations, in units of the target's.
            generator: of the torsions.
            steps: of each conformer.
            torsions: let torsions about bonds follow their forces too.
        """
        coordinates = deepcopy(coordinates).cpu()
        turning = torch.tensor(turning_dims(coordinates) if torsions else [], dtype=torch.int64)
        y = torch.rand(n, len(self.centre), generator=generator, dtype=torch.float64)
        y[:, self.stiff] = self.centre[self.stiff]
        with counted(target):
            for _ in range(steps):
                potential, slopes = spread_over_ranks(
                    lambda part: _potential_and_slopes(coordinates, target, part), y
                )
                # In standard deviations along the eigenvectors, where the stiffness is the temperature.
                force = torch.nan_to_num(-slopes / temperature, 0.0, 0.0, 0.0)
                along = (force[:, self.stiff] @ self.factor).clamp(-_FURTHEST, _FURTHEST)
                moved = y[:, self.stiff] + along @ self.factor.T
                y[:, self.stiff] = torch.where((moved > 0) & (moved < 1), moved, y[:, self.stiff])
                turns = (_TURN**2 * force[:, turning]).clamp(-_FURTHEST_TURN, _FURTHEST_TURN)
                y[:, turning] = (y[:, turning] + turns) % 1
        usable = potential.isfinite()
        if usable.sum() < 2:
            return self
        log_ratio = -potential[usable].double()
        sharpness = min(_SHARPEST, trust_region(log_ratio, math.log(4)))
        return self._replace(conformers=y[usable], shares=torch.softmax(sharpness * log_ratio, 0))

    def sample(self, n: int, generator: torch.Generator) -> Tensor:
        """Return points of the box, ``(n, dim)``; what would lie outside is set back to its middle."""
        if self.conformers is None or self.shares is None:
            y = torch.rand(n, len(self.centre), generator=generator, dtype=torch.float64)
            middle = self.centre.expand_as(y)[:, self.stiff]
        else:
            chosen = torch.multinomial(self.shares, n, replacement=True, generator=generator)
            shift = torch.randn(n, len(self.centre), generator=generator, dtype=torch.float64)
            y = (self.conformers[chosen] + _JITTER * shift) % 1
            middle = self.conformers[chosen][:, self.stiff]
        normal = torch.randn(n, len(self.stiff), generator=generator, dtype=torch.float64)
        moved = middle + normal @ self.factor.T
        y[:, self.stiff] = torch.where((moved > 0) & (moved < 1), moved, middle)
        return y


def coordinates_of(flow: Flow) -> InternalCoordinates:
    """Return the internal coordinates in which a flow of a molecule ends."""
    last = flow.bijection.links[-1] if isinstance(flow.bijection, Chain) else flow.bijection
    if not isinstance(last, InternalCoordinates):
        raise UserError(
            "A harmonic start needs a molecule in internal coordinates: set annealing.pretraining=0."
        )
    return last


def turning_dims(coordinates: InternalCoordinates) -> list[int]:
    """Return the dims of torsions about bonds: those whose reference is not a sibling of the atom they place."""
    rows = coordinates.zmatrix.rows.tolist()
    bonds = {frozenset(row[:2]) for row in rows[1:]}
    first = coordinates.dim - len(rows[3:])
    return [
        first + place
        for place, (_, parent, _, reference) in enumerate(rows[3:])
        if frozenset((parent, reference)) not in bonds
    ]


def _potential_and_slopes(
    coordinates: InternalCoordinates, target: Target, y: Tensor
) -> tuple[Tensor, Tensor]:
    """Return −log p̃ in the box, ``(n,)``, and its gradient, ``(n, dim)``."""
    leaf = y.detach().requires_grad_()
    with torch.enable_grad():
        x, log_det = coordinates.transform(leaf)
        potential = target(x) - log_det
        (slope,) = torch.autograd.grad(potential.sum(), leaf)
    return potential.detach(), slope
