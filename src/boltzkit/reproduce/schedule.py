"""Cells on workers: one thread each, stopped cleanly, resumed by the same command."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from boltzkit.data.lock import sole_writer
from boltzkit.errors import UserError
from boltzkit.method import RunConfig, TuneConfig
from boltzkit.reproduce.cell import Cell, Tell, run_cell, stored_result
from boltzkit.storage import read_json
from boltzkit.workers import Item, WorkerOptions, open_workers, run_items

__all__ = ["cell_item", "run_cell_of", "run_cells"]


def run_cells(
    cells: Sequence[Cell], out: Path, workers: int | WorkerOptions, tell: Tell
) -> list[dict[str, Any]]:
    """Run all cells and return their results in order.

    Args:
        cells: what to run; those whose result is stored are not run again.
        out: their folder.
        workers: so many processes of this machine, or where else.
        tell: called with a line at a time.

    Raises:
        Interrupted: a stop was asked for; every worker has saved its state.
        UserError: a cell failed; the others have saved their state.
    """
    options = WorkerOptions(workers=workers) if isinstance(workers, int) else workers
    waiting = [cell_item(cell, out) for cell in cells if stored_result(cell, out) is None]
    if waiting:
        with open_workers(options, tell, lasting=False) as there:
            run_items(there, waiting, lambda item, result: None, tell=tell, place=str(out))
    return [read_json(out / f"{cell.key}.json") for cell in cells]


def cell_item(cell: Cell, out: Path) -> Item:
    """Return the work on one cell."""
    content = {
        "key": cell.key,
        "label": cell.label,
        "config": cell.config.model_dump(mode="json"),
        "seeds": list(cell.seeds),
        "tuning": None if cell.tuning is None else cell.tuning.model_dump(mode="json"),
        "keep": cell.keep,
    }
    return Item("cell", cell.label, f"{__name__}:run_cell_of", {"cell": content, "out": str(out.resolve())})


def run_cell_of(arguments: Mapping[str, Any], tell: Tell) -> None:
    """Do that work, in a worker; the result is a file."""
    content = dict(arguments["cell"])
    tuning = None if content["tuning"] is None else TuneConfig.parse(content["tuning"])
    config = RunConfig.parse(content["config"])
    cell = Cell(content["key"], content["label"], config, tuple(content["seeds"]), tuning, content["keep"])
    out = Path(arguments["out"])
    try:
        with sole_writer(out / cell.key):
            run_cell(cell, out, tell)
    except UserError as error:
        tell(f"failed: {error}")
        raise UserError(f"The cell '{cell.label}' failed (exit code 2); see above.") from error
