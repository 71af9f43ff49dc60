"""Generalised Born solvents of the HCT and OBC families, with a surface term."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

from boltzkit.energy.forcefield.nonbonded import COULOMB
from boltzkit.energy.forcefield.term import Geometry, Term

__all__ = ["PROBE", "BornAtom", "GeneralisedBorn"]

_OFFSET = 0.009
"""nm that GBSAOBCForce takes off the atomic radii."""
PROBE = 0.14
"""nm, radius of the solvent probe."""


@dataclass(frozen=True)
class BornAtom:
    """One atom: charge in e; radius, radius less the model's offset, and that times the atom's scale, in nm."""

    charge: float
    radius: float
    reduced: float
    scaled: float


class GeneralisedBorn(Term):
    r"""Solvation energy from effective Born radii B.

    $$E = -\tfrac12 k \Bigl(\tfrac1{\epsilon_{in}} - \tfrac1{\epsilon_{out}}\Bigr) \sum_{ij}
    \frac{q_i q_j}{f_{ij}} + s \sum_i (\rho_i + \rho_p)^2 (\rho_i/B_i)^6,\qquad
    f^2 = r^2 + B_i B_j e^{-r^2/4B_iB_j}$$

    $$\tfrac1{B_i} = \tfrac1{\tilde\rho_i} - \tfrac1{\rho_i}\tanh(\alpha\psi - \beta\psi^2 + \gamma\psi^3)$$

    with ψ the descreening of an atom by all others; without tanh (HCT) 1/B = (1 − ψ)/ρ̃.

    Args:
        atoms: one per atom.
        prefactor: −½ k (1/ε_in − 1/ε_out) in kJ nm / (mol e²).
        surface: s in kJ/mol/nm².
        shape: (α, β, γ) of the tanh, or None.
        nested: whether an atom inside another gets an integral of its own, as in GBSAOBCForce.
    """

    charge: Tensor
    own_charge: Tensor
    radius: Tensor
    reduced: Tensor
    scaled: Tensor
    surface: Tensor

    def __init__(
        self,
        atoms: Sequence[BornAtom],
        prefactor: float,
        surface: float,
        shape: tuple[float, float, float] | None,
        nested: bool,
    ) -> None:
        super().__init__()
        rows = [(a.charge, a.radius, a.reduced, a.scaled) for a in atoms]
        q, radius, reduced, scaled = torch.tensor(rows, dtype=torch.float64).T
        i, j = torch.triu_indices(len(q), len(q), offset=1)
        self.shape, self.nested = shape, nested
        self.constant("charge", (2 * prefactor * q[i] * q[j]).unsqueeze(-1))
        self.constant("own_charge", (prefactor * q * q).unsqueeze(-1))
        self.constant("radius", radius.unsqueeze(-1))
        self.constant("reduced", reduced.unsqueeze(-1))
        self.constant("scaled", scaled.unsqueeze(-1))
        self.constant("surface", (surface * (radius + PROBE) ** 2).unsqueeze(-1))

    @classmethod
    def gbsa_obc(
        cls,
        particles: Sequence[tuple[float, float, float]],
        solute_dielectric: float,
        solvent_dielectric: float,
        surface_energy: float,
    ) -> Self:
        """Take what GBSAOBCForce has: (q in e, radius in nm, scale) per atom, surface energy in kJ/mol/nm²."""
        atoms = [BornAtom(q, radius, radius - _OFFSET, s * (radius - _OFFSET)) for q, radius, s in particles]
        prefactor = -0.5 * COULOMB * (1 / solute_dielectric - 1 / solvent_dielectric)
        return cls(atoms, prefactor, 4 * math.pi * surface_energy, (1.0, 0.8, 4.85), nested=True)

    def forward(self, geometry: Geometry) -> Tensor:
        """Sum over pairs, self terms and the surface."""
        pairs, squared = geometry.pairs, geometry.squared
        inverse_born = self._inverse_born_radii(geometry)
        inverse_product = pairs.first(inverse_born) * pairs.second(inverse_born)
        f = (squared + torch.exp(-0.25 * squared * inverse_product) / inverse_product).sqrt()
        polar = (self.charge / f).sum(0) + (self.own_charge * inverse_born).sum(0)
        ratio = self.radius * inverse_born
        cube = ratio * ratio * ratio
        return polar + (self.surface * cube * cube).sum(0)

    def _inverse_born_radii(self, geometry: Geometry) -> Tensor:
        pairs = geometry.pairs
        own, other = self.reduced, self.scaled
        to_first = self._descreening(geometry, own[pairs.i], other[pairs.j])
        to_second = self._descreening(geometry, own[pairs.j], other[pairs.i])
        psi = 0.5 * self.reduced * pairs.gather(to_first, to_second)
        if self.shape is None:
            return (1 - psi) / self.reduced
        alpha, beta, gamma = self.shape
        return 1 / self.reduced - torch.tanh(psi * (alpha - psi * (beta - psi * gamma))) / self.radius

    def _descreening(self, geometry: Geometry, own: Tensor, other: Tensor) -> Tensor:
        """Return the integral over the part of one atom's sphere that another takes from the solvent."""
        r, inverse = geometry.distance, geometry.inverse
        outer = r + other
        inner = torch.maximum(own, (r - other).abs())
        # One division for both reciprocals: it is the most expensive operation here.
        both = 1 / (inner * outer)
        lower, upper = outer * both, inner * both
        term = lower - upper + 0.25 * (r - other * other * inverse) * (upper * upper - lower * lower)
        term = term + 0.5 * inverse * torch.log(inner * upper)
        if self.nested:
            # One atom inside another: the integral over the part that inner leaves out.
            term = term + torch.where(own < other - r, 2 * (1 / own - lower), 0.0)
        return torch.where(own < outer, term, 0.0)
