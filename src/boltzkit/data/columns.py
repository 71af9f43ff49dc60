"""What a dataset stores of every sample, in which precision and unit."""

from dataclasses import dataclass
from types import MappingProxyType

__all__ = ["COLUMNS", "REQUIRED", "Column"]


@dataclass(frozen=True)
class Column:
    """One array of a shard.

    Attributes:
        dtype: NumPy's name for the number format, byte order included.
        unit: physical unit, or what the number counts.
        per_atom: whether a sample has a vector for each atom, or one number.
    """

    dtype: str
    unit: str
    per_atom: bool = False

    def shape(self, n: int, n_atoms: int) -> tuple[int, ...]:
        """Return the shape of n samples.

        >>> COLUMNS["forces"].shape(5, 22), COLUMNS["energy"].shape(5, 22)
        ((5, 22, 3), (5,))
        """
        return (n, n_atoms, 3) if self.per_atom else (n,)


COLUMNS: MappingProxyType[str, Column] = MappingProxyType(
    {
        "positions": Column("<f4", "nm", per_atom=True),
        "energy": Column("<f8", "kJ/mol"),
        "trajectory": Column("<i4", "number"),
        "frame": Column("<i8", "number"),
        "forces": Column("<f4", "kJ/mol/nm", per_atom=True),
        "bias": Column("<f8", "kJ/mol"),
    }
)
"""All columns. The energy is that of the unbiased potential; the bias is what the simulation added to it."""

REQUIRED = ("positions", "energy", "trajectory", "frame")
"""Columns that every dataset has; the others are there for all of its samples or for none."""
