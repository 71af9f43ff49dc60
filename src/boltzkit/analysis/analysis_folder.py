"""An analysis on disk: ``analysis.json``, tables for spreadsheets, and structures for viewers."""

import csv
import io
import math
from collections.abc import Iterable, Sequence
from pathlib import Path

from boltzkit.analysis.analyse import Analysis
from boltzkit.molecule import pdb_text
from boltzkit.storage import write_bytes, write_json
from boltzkit.weights import Estimate

__all__ = ["in_degrees", "write_analysis"]

Cell = str | int | float


def write_analysis(analysis: Analysis, folder: str | Path) -> list[Path]:
    """Write the analysis into a folder, and return the files; others there stay.

    - ``analysis.json``: all numbers; angles in radians, free energies in k_BT
    - ``averages.csv``, ``states.csv``, ``profiles.csv``, ``surfaces.csv``: the same as tables; angles in degrees
    - ``cluster-1.pdb``, …: the structures that stand for the ensemble
    """
    folder = Path(folder)
    tables = {
        "averages.csv": _averages(analysis),
        "states.csv": _states(analysis),
        "profiles.csv": _profiles(analysis),
        "surfaces.csv": _surfaces(analysis),
    }
    written = []
    for name, rows in tables.items():
        written.append(folder / name)
        write_bytes(folder / name, _csv(rows))
    for found in analysis.clusters:
        written.append(folder / f"cluster-{found.number}.pdb")
        structure = pdb_text(analysis.subject.molecule, found.x.double().numpy())
        write_bytes(written[-1], structure.encode())
    # Last, so that whoever finds it finds all the rest.
    written.append(folder / "analysis.json")
    write_json(written[-1], analysis.to_json())
    return written


def in_degrees(estimate: Estimate) -> Estimate:
    """Return an angle in degrees."""
    value, low, high, error = (math.degrees(number) for number in _numbers(estimate))
    return Estimate(value, low, high, error, estimate.confidence)


def _averages(analysis: Analysis) -> Iterable[Sequence[Cell]]:
    yield "observable", "unit", "mean", "low", "high", "standard_error"
    for row in analysis.averages:
        mean = in_degrees(row.mean) if row.periodic else row.mean
        yield row.name, "deg" if row.periodic else row.unit, *_numbers(mean)


def _states(analysis: Analysis) -> Iterable[Sequence[Cell]]:
    yield (
        *("state", "group", "samples", "population", "population_low", "population_high", "population_se"),
        *("reference", "free_energy_kT", "free_energy_low", "free_energy_high", "free_energy_se"),
    )
    for row in analysis.states:
        difference = ("", "", "", "") if row.free_energy is None else _numbers(row.free_energy)
        yield row.name, row.group, row.n_samples, *_numbers(row.population), row.reference, *difference


def _profiles(analysis: Analysis) -> Iterable[Sequence[Cell]]:
    yield "observable", "unit", "from", "to", "free_energy_kT", "low", "high", "raw_kT"
    for row in analysis.profiles:
        scale = math.degrees(1.0) if row.periodic else 1.0
        edges = (row.edges * scale).tolist()
        columns = (c.tolist() for c in row.cells[:4])
        for low, high, *values in zip(edges[:-1], edges[1:], *columns, strict=True):
            yield row.name, "deg" if row.periodic else row.unit, low, high, *values


def _surfaces(analysis: Analysis) -> Iterable[Sequence[Cell]]:
    yield (
        "first",
        "second",
        "first_centre_deg",
        "second_centre_deg",
        "free_energy_kT",
        "low",
        "high",
        "raw_kT",
    )
    for row in analysis.surfaces:
        centres = [((edge[1:] + edge[:-1]) / 2 * math.degrees(1.0)).tolist() for edge in row.edges]
        for i, x in enumerate(centres[0]):
            columns = (c[i].tolist() for c in row.cells[:4])
            for y, *values in zip(centres[1], *columns, strict=True):
                yield *row.names, x, y, *values


def _numbers(estimate: Estimate) -> tuple[float, float, float, float]:
    return estimate.value, estimate.low, estimate.high, estimate.standard_error


def _csv(rows: Iterable[Sequence[Cell]]) -> bytes:
    """Return comma-separated lines; empty where a number does not exist."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    for row in rows:
        writer.writerow([_word(cell) for cell in row])
    return text.getvalue().encode()


def _word(cell: Cell) -> Cell:
    if isinstance(cell, float):
        return f"{cell:.8g}" if math.isfinite(cell) else ""
    return cell
