"""Everything a molecule's page shows, as plain values, whatever they were computed with.

Strings are shown as they are, ``k_BT`` with a proper subscript. Numbers that do not exist are NaN.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from boltzkit.ensemble import Level

__all__ = [
    "Curve",
    "Histogram",
    "Interval",
    "MoleculeReport",
    "Number",
    "Profile",
    "Reproduction",
    "Structure",
    "Surface",
    "Table",
]


@dataclass(frozen=True)
class Structure:
    """One representative conformer.

    Attributes:
        label: its name, such as ``C7eq``.
        note: what is to be said of it, such as ``population 62 % [60, 64]``.
        pdb: its atoms as PDB text; all structures of a page list the same atoms in the same order.
    """

    label: str
    note: str
    pdb: str

    def __post_init__(self) -> None:
        if not any(line.startswith(("ATOM  ", "HETATM")) for line in self.pdb.splitlines()):
            raise ValueError(f"Structure {self.label!r} has no atoms in its PDB text.")


@dataclass(frozen=True)
class Number:
    """One headline number, already written out."""

    label: str
    value: str
    note: str = ""


@dataclass(frozen=True)
class Interval:
    """A value with its 95 % confidence interval: one row of a table.

    Attributes:
        label: what it is.
        value: the estimate; NaN if there is none.
        low: lower end; −inf if there is none.
        high: upper end; inf if there is none.
        unit: of all three.
        note: a remark set below the label.
    """

    label: str
    value: float
    low: float
    high: float
    unit: str = ""
    note: str = ""


@dataclass(frozen=True)
class Table:
    """Intervals that are read together, under a title and above a caption; bars are drawn if all have one unit."""

    title: str
    rows: tuple[Interval, ...]
    caption: str


@dataclass(frozen=True)
class Profile:
    """A free energy along one coordinate.

    Attributes:
        title: what it shows, such as ``φ of ALA2``.
        unit: of the coordinate.
        x: centres of the bins, rising.
        free_energy: in k_BT, NaN where no sample is.
        low: lower end of the 95 % interval.
        high: upper end of it.
        periodic: whether the last bin is next to the first.
        raw: the free energy before reweighting, if it is to be compared.
    """

    title: str
    unit: str
    x: tuple[float, ...]
    free_energy: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    periodic: bool
    raw: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        lines = (self.free_energy, self.low, self.high, self.raw or self.x)
        if len(self.x) < 2 or any(len(line) != len(self.x) for line in lines):
            raise ValueError(
                f"Profile {self.title!r} needs two bins or more and a number for each in every line."
            )


@dataclass(frozen=True)
class Surface:
    """A free energy over two coordinates.

    Attributes:
        title: what it shows, such as ``ALA2``.
        x_label: of the first coordinate, with its unit.
        y_label: of the second.
        x_edges: borders of the cells along the first coordinate, rising, ``(columns + 1,)``.
        y_edges: along the second, ``(rows + 1,)``.
        free_energy: in k_BT, ``(columns, rows)``, first index along x; NaN where no sample is.
    """

    title: str
    x_label: str
    y_label: str
    x_edges: tuple[float, ...]
    y_edges: tuple[float, ...]
    free_energy: tuple[tuple[float, ...], ...]

    def __post_init__(self) -> None:
        columns, rows = len(self.x_edges) - 1, len(self.y_edges) - 1
        if len(self.free_energy) != columns or any(len(column) != rows for column in self.free_energy):
            raise ValueError(f"Surface {self.title!r} needs one number for each of {columns} × {rows} cells.")


@dataclass(frozen=True)
class Histogram:
    """Several densities on one axis.

    Attributes:
        title: what they are of.
        unit: of the axis.
        edges: borders of the bins, rising, ``(bins + 1,)``.
        densities: by name, such as flow, reweighted, data, ``(bins,)`` each.
    """

    title: str
    unit: str
    edges: tuple[float, ...]
    densities: Mapping[str, tuple[float, ...]]

    def __post_init__(self) -> None:
        if any(len(density) != len(self.edges) - 1 for density in self.densities.values()):
            raise ValueError(f"Histogram {self.title!r} needs one number per bin in every density.")


@dataclass(frozen=True)
class Curve:
    """Numbers that were watched while a flow was trained: by name, points (x, y) in order of x."""

    title: str
    x_label: str
    y_label: str
    series: Mapping[str, tuple[tuple[float, float], ...]]


@dataclass(frozen=True)
class Reproduction:
    """How to get the same result again.

    Attributes:
        commands: what to type, in order.
        config: the complete configuration, JSON text.
        versions: of the programs that took part, by name.
    """

    commands: tuple[str, ...]
    config: str
    versions: Mapping[str, str]


@dataclass(frozen=True)
class MoleculeReport:
    """The content of one page; what is empty leaves no trace on it.

    Attributes:
        title: the molecule's name.
        subtitle: how it was modelled: force field, temperature, method.
        verdict: whether the reweighted averages can be trusted.
        reasons: sentences that led to the verdict.
        headline: the few numbers to see first.
        structures: representative conformers, the most populated first.
        tables: populations, free-energy differences and other averages.
        surfaces: free energies over two coordinates.
        profiles: free energies along one.
        histograms: of energies and weights.
        curves: of the training.
        remarks: whatever else a reader has to know, one sentence or two each.
        reproduction: how to get it again.
    """

    title: str
    subtitle: str
    verdict: Level
    reasons: tuple[str, ...]
    headline: tuple[Number, ...]
    structures: tuple[Structure, ...]
    tables: tuple[Table, ...]
    surfaces: tuple[Surface, ...]
    profiles: tuple[Profile, ...]
    histograms: tuple[Histogram, ...]
    curves: tuple[Curve, ...]
    remarks: tuple[str, ...]
    reproduction: Reproduction
