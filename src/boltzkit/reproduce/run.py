"""Running an experiment: an estimate first, its cells on workers, and a report whatever happens."""

from collections.abc import Sequence
from pathlib import Path

from boltzkit.data.lock import sole_writer
from boltzkit.reproduce.budget import estimate
from boltzkit.reproduce.cell import Cell, Tell, stored_result
from boltzkit.reproduce.experiment import Experiment, finished
from boltzkit.reproduce.report import write_report
from boltzkit.reproduce.schedule import run_cells
from boltzkit.workers import WorkerOptions

__all__ = ["run_experiment"]


def run_experiment(
    experiment: Experiment, out: Path, workers: int | WorkerOptions, tell: Tell, rows: Sequence[str] = ()
) -> Path:
    """Run or go on and return the path of report.html.

    Each seed is an independent experiment; the test set is common to all. A run that is stopped leaves the report of
    the cells that are finished.

    Args:
        experiment: what to run.
        out: folder of the results.
        workers: so many processes of this machine, or where else.
        tell: called with a line at a time.
        rows: patterns of the cells to run, all by default; the report is of all that are finished.
    """
    cells = experiment.cells(rows)
    with sole_writer(out, patience=0):
        _run(experiment, cells, out, workers, tell)
    return out / "report.html"


def _run(
    experiment: Experiment, cells: Sequence[Cell], out: Path, workers: int | WorkerOptions, tell: Tell
) -> None:
    if experiment.prepare is not None:
        experiment.prepare(tell)
    missing = [cell for cell in cells if stored_result(cell, out / "cells") is None]
    # How fast the machines of a cluster are, and how many will come, is not known here.
    processes = workers if isinstance(workers, int) else None if workers.dask else workers.workers
    words = None if processes is None else estimate(missing, processes)
    if words is not None:
        tell(words)
    try:
        run_cells(cells, out / "cells", workers, tell)
    finally:
        found = finished(experiment, out)
        if found:
            write_report(experiment, found, out)
