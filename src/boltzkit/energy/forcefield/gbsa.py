"""GBSAOBCForce: generalised Born solvent (Onufriev, Bashford, Case, model II) with a surface term."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from boltzkit.energy.forcefield.nonbonded import COULOMB
from boltzkit.energy.forcefield.term import Geometry, Term

__all__ = ["GBSAOBC"]

_OFFSET = 0.009
"""nm taken off the atomic radii."""
_PROBE = 0.14
"""nm, radius of the solvent probe."""
_ALPHA, _BETA, _GAMMA = 1.0, 0.8, 4.85


class GBSAOBC(Term):
    r"""Solvation energy from effective Born radii B.

    $$E = -\tfrac12 k \Bigl(\tfrac1{\epsilon_{in}} - \tfrac1{\epsilon_{out}}\Bigr) \sum_{ij}
    \frac{q_i q_j}{f_{ij}} + 4\pi\gamma \sum_i (\rho_i + \rho_p)^2 (\rho_i/B_i)^6,\qquad
    f^2 = r^2 + B_i B_j e^{-r^2/4B_iB_j}$$
    """

    charge: Tensor
    own_charge: Tensor
    radius: Tensor
    reduced: Tensor
    scaled: Tensor
    surface: Tensor

    def __init__(
        self,
        particles: Sequence[tuple[float, float, float]],
        solute_dielectric: float,
        solvent_dielectric: float,
        surface_energy: float,
    ) -> None:
        """Take (q in e, radius in nm, scale) per atom, and the surface energy in kJ/mol/nm²."""
        super().__init__()
        q, radius, scale = torch.tensor(particles, dtype=torch.float64).T
        prefactor = -0.5 * COULOMB * (1 / solute_dielectric - 1 / solvent_dielectric)
        i, j = torch.triu_indices(len(q), len(q), offset=1)
        self.constant("charge", (2 * prefactor * q[i] * q[j]).unsqueeze(-1))
        self.constant("own_charge", (prefactor * q * q).unsqueeze(-1))
        self.constant("radius", radius.unsqueeze(-1))
        self.constant("reduced", (radius - _OFFSET).unsqueeze(-1))
        self.constant("scaled", (scale * (radius - _OFFSET)).unsqueeze(-1))
        self.constant("surface", (4 * math.pi * surface_energy * (radius + _PROBE) ** 2).unsqueeze(-1))

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
        to_first = _descreening(geometry, own[pairs.i], other[pairs.j])
        to_second = _descreening(geometry, own[pairs.j], other[pairs.i])
        psi = 0.5 * self.reduced * pairs.gather(to_first, to_second)
        return 1 / self.reduced - torch.tanh(psi * (_ALPHA - psi * (_BETA - psi * _GAMMA))) / self.radius


def _descreening(geometry: Geometry, own: Tensor, other: Tensor) -> Tensor:
    """Return the integral over the part of one atom's sphere that another takes from the solvent."""
    r, inverse = geometry.distance, geometry.inverse
    outer = r + other
    inner = torch.maximum(own, (r - other).abs())
    # One division for both reciprocals: it is the most expensive operation here.
    both = 1 / (inner * outer)
    lower, upper = outer * both, inner * both
    term = lower - upper + 0.25 * (r - other * other * inverse) * (upper * upper - lower * lower)
    term = term + 0.5 * inverse * torch.log(inner * upper)
    # One atom inside another: the integral over the part that inner leaves out.
    term = term + torch.where(own < other - r, 2 * (1 / own - lower), 0.0)
    return torch.where(own < outer, term, 0.0)
