"""Constrained bonds: coordinates that a molecule does not have."""

from boltzkit.coordinates.zmatrix import ZMatrix
from boltzkit.errors import UserError
from boltzkit.molecule import Constraints

__all__ = ["CONSTRAINT_TOLERANCE", "constrained_lengths"]

CONSTRAINT_TOLERANCE = 0.005
"""nm: a constrained bond further off its length is no rounding of a trajectory file (1e-3 nm in the coarsest)."""


def constrained_lengths(zmatrix: ZMatrix, constraints: Constraints | None, name: str) -> dict[int, float]:
    """Return the lengths in nm of constrained bonds, by the bond's place: 0 is that of the z-matrix's second row.

    Raises:
        UserError: a constraint is not a bond of the z-matrix.
    """
    if constraints is None:
        return {}
    places = {frozenset(row[:2]): place for place, row in enumerate(zmatrix.rows[1:].tolist())}
    fixed = {}
    for (a, b), length in zip(constraints.pairs.tolist(), constraints.lengths.tolist(), strict=True):
        place = places.get(frozenset((a, b)))
        if place is None:
            raise UserError(
                f"{name}: the constraint between atoms {a + 1} and {b + 1} is not a bond along which atoms are placed "
                "(it closes a ring, or fixes an angle), so internal coordinates cannot keep it: use "
                "constraints='HBonds' or none."
            )
        fixed[place] = length
    return dict(sorted(fixed.items()))
