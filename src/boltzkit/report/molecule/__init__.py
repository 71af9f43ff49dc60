"""One self-contained page about a molecule's ensemble, for whoever asked for it."""

from boltzkit.report.molecule.content import (
    Curve,
    Histogram,
    Interval,
    MoleculeReport,
    Number,
    Profile,
    Reproduction,
    Structure,
    Surface,
    Table,
)
from boltzkit.report.molecule.page import molecule_page, write_molecule_report

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
    "molecule_page",
    "write_molecule_report",
]
