"""Cells on workers: one thread each, stopped cleanly, resumed by the same command."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from boltzkit.data.lock import sole_writer
from boltzkit.errors import UserError
from boltzkit.method import RunConfig, TuneConfig
from boltzkit.reproduce.cell import Cell, Tell, run_cell, stored_result
from boltzkit.storage import read_json
from boltzkit.training import checkpoints
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
    waiting = _with_starts([cell for cell in cells if stored_result(cell, out) is None], out)
    for depth in sorted({_depth(cell) for cell in waiting}):
        with open_workers(options, tell, lasting=False) as there:
            # What has a result and waits all the same lacks its flows.
            items = [
                cell_item(cell, out, again=stored_result(cell, out) is not None)
                for cell in waiting
                if _depth(cell) == depth
            ]
            run_items(there, items, lambda item, result: None, tell=tell, place=str(out))
    return [read_json(out / f"{cell.key}.json") for cell in cells]


def _with_starts(missing: Sequence[Cell], out: Path) -> list[Cell]:
    """Return these cells and those whose flows they begin with, as far as these are not there."""
    waiting = {cell.key: cell for cell in missing}
    for cell in missing:
        start = cell.after
        while start is not None and not _has_flows(start, out):
            waiting[start.key] = start
            start = start.after
    return list(waiting.values())


def _has_flows(cell: Cell, out: Path) -> bool:
    """Whether all seeds are trained to their end."""
    last = [(found := checkpoints(path / "checkpoints")) and found[-1].name for path in cell.flows(out)]
    return all(name == f"step-{cell.trained_steps():08d}" for name in last)


def _depth(cell: Cell) -> int:
    """Return how many cells come before a cell."""
    return 0 if cell.after is None else 1 + _depth(cell.after)


def cell_item(cell: Cell, out: Path, *, again: bool = False) -> Item:
    """Return the work on one cell."""
    arguments = {"cell": _content(cell), "out": str(out.resolve()), "again": again}
    return Item("cell", cell.label, f"{__name__}:run_cell_of", arguments)


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
            run_cell(cell, out, tell, again=arguments["again"])
    except UserError as error:
        tell(f"failed: {error}")
        raise UserError(f"The cell '{cell.label}' failed (exit code 2); see above.") from error
