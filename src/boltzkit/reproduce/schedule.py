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
    missing = [cell for cell in cells if stored_result(cell, out) is None]
    for wave in _waves(missing, out):
        with open_workers(options, tell, lasting=False) as there:
            items = [cell_item(cell, out) for cell in wave]
            run_items(there, items, lambda item, result: None, tell=tell, place=str(out))
    return [read_json(out / f"{cell.key}.json") for cell in cells]


def _waves(missing: Sequence[Cell], out: Path) -> list[list[Cell]]:
    """Return what can run at the same time, in order: flows that others begin with come before them."""
    todo = {cell.key: cell for cell in missing}
    for start in (start for cell in missing for start in _before(cell)):
        if not all((path / "config.json").is_file() for path in start.flows(out)):
            (out / f"{start.key}.json").unlink(missing_ok=True)  # its numbers came here without its flows
        if stored_result(start, out) is None:
            todo[start.key] = start
    by_depth: dict[int, list[Cell]] = {}
    for cell in todo.values():
        by_depth.setdefault(len(_before(cell)), []).append(cell)
    return [by_depth[depth] for depth in sorted(by_depth)]


def _before(cell: Cell) -> list[Cell]:
    """Return the cells that a cell needs, the nearest first."""
    return [] if cell.after is None else [cell.after, *_before(cell.after)]


def cell_item(cell: Cell, out: Path) -> Item:
    """Return the work on one cell."""
    return Item(
        "cell", cell.label, f"{__name__}:run_cell_of", {"cell": _content(cell), "out": str(out.resolve())}
    )


def _content(cell: Cell) -> dict[str, Any]:
    return {
        "key": cell.key,
        "label": cell.label,
        "config": cell.config.model_dump(mode="json"),
        "seeds": list(cell.seeds),
        "tuning": None if cell.tuning is None else cell.tuning.model_dump(mode="json"),
        "keep": cell.keep,
        "after": None if cell.after is None else _content(cell.after),
        "trains": cell.trains,
    }


def _cell(content: Mapping[str, Any]) -> Cell:
    """Return the cell that has such a content."""
    tuning = None if content["tuning"] is None else TuneConfig.parse(content["tuning"])
    after = None if content["after"] is None else _cell(content["after"])
    config, seeds = RunConfig.parse(content["config"]), tuple(content["seeds"])
    label, keep, trains = content["label"], content["keep"], content["trains"]
    return Cell(content["key"], label, config, seeds, tuning, keep, after, trains)


def run_cell_of(arguments: Mapping[str, Any], tell: Tell) -> None:
    """Do that work, in a worker; the result is a file."""
    cell, out = _cell(arguments["cell"]), Path(arguments["out"])
    try:
        with sole_writer(out / cell.key):
            run_cell(cell, out, tell)
    except UserError as error:
        tell(f"failed: {error}")
        raise UserError(f"The cell '{cell.label}' failed (exit code 2); see above.") from error
