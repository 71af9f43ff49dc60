"""Lennard-Jones and Coulomb between all pairs, with exceptions."""

from collections.abc import Sequence

import torch
from torch import Tensor

from boltzkit.energy.forcefield.term import Geometry, Term

__all__ = ["COULOMB", "Nonbonded"]

COULOMB = 138.93545764438198
"""1/(4πε₀) in kJ nm / (mol e²), as OpenMM has it."""


class Nonbonded(Term):
    r"""$E = \sum_{i<j} 4\varepsilon_{ij}(s^{12} - s^6) + k q_i q_j / r$, $s = \sigma_{ij}/r$, without cutoff.

    One row of parameters per pair holds combination rules and exceptions alike; an excluded pair has zeros.
    """

    sigma_squared: Tensor
    epsilon: Tensor
    charge: Tensor

    def __init__(
        self,
        particles: Sequence[tuple[float, float, float]],
        exceptions: Sequence[tuple[int, int, float, float, float]],
    ) -> None:
        """Take (q, σ, ε) per atom and (i, j, q_i q_j, σ, ε) per exception, in e, nm and kJ/mol."""
        super().__init__()
        q, sigma, epsilon = torch.tensor(particles, dtype=torch.float64).T
        charge = q.outer(q)
        sigma = 0.5 * (sigma[:, None] + sigma[None, :])
        epsilon = (epsilon[:, None] * epsilon[None, :]).sqrt()
        for i, j, qq, s, e in exceptions:
            a, b = min(i, j), max(i, j)
            charge[a, b], sigma[a, b], epsilon[a, b] = qq, s, e
        # σ of a pair without attraction must not overflow s¹² where its atoms overlap: 0 · inf is NaN.
        sigma = torch.where(epsilon > 0, sigma, 0.0)
        i, j = torch.triu_indices(len(q), len(q), offset=1)
        self.constant("sigma_squared", (sigma * sigma)[i, j].unsqueeze(-1))
        self.constant("epsilon", 4 * epsilon[i, j].unsqueeze(-1))
        self.constant("charge", COULOMB * charge[i, j].unsqueeze(-1))

    def forward(self, geometry: Geometry) -> Tensor:
        """Sum over pairs."""
        inverse = geometry.inverse
        s2 = self.sigma_squared * inverse * inverse
        s6 = s2 * s2 * s2
        return (self.epsilon * (s6 * s6 - s6) + self.charge * inverse).sum(0)
