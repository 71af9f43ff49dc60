"""Cells on several worker processes: one thread each, stopped cleanly, resumed by the same command."""

import multiprocessing as mp
import queue
import sys
import traceback
from collections.abc import Sequence
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import torch

from boltzkit.errors import Interrupted, UserError
from boltzkit.interrupt import stop_requested
from boltzkit.reproduce.cell import Cell, Tell, run_cell, stored_result
from boltzkit.storage import read_json

__all__ = ["run_cells"]


def run_cells(cells: Sequence[Cell], out: Path, workers: int, tell: Tell) -> list[dict[str, Any]]:
    """Run all cells and return their results in order.

    Raises:
        Interrupted: a stop was asked for; every worker has saved its state.
        UserError: a cell failed; the others have saved their state.
    """
    context = mp.get_context("spawn")
    messages: Any = context.Queue()
    waiting = [cell for cell in cells if stored_result(cell, out) is None]
    running = dict[str, BaseProcess]()
    failed: list[str] = []
    with stop_requested() as asked:

        def stopping() -> bool:
            # After a failure the others save and stop too: nobody would hear of what they do.
            return asked() or bool(failed)

        while (waiting and not stopping()) or running:
            while waiting and len(running) < workers and not stopping():
                cell = waiting.pop(0)
                process: BaseProcess = context.Process(
                    target=_work, args=(cell, out, messages), name=cell.label
                )
                process.start()
                running[cell.key] = process
            _relay(messages, tell)
            if stopping():
                for process in running.values():
                    process.terminate()  # SIGTERM: the training saves its state and stops.
            for key in [key for key, process in running.items() if not process.is_alive()]:
                failed += _failure(running.pop(key), stopping())
        _relay(messages, tell)
        if failed:
            raise UserError(failed[0])
        if stopping():
            raise Interrupted(f"Stopped and saved in {out}; the same command goes on from there.")
    return [read_json(out / f"{cell.key}.json") for cell in cells]


def _work(cell: Cell, out: Path, messages: Any) -> None:
    """Run one cell in a process of its own; the exit code tells how it ended."""
    torch.set_num_threads(1)

    def tell(text: str) -> None:
        messages.put(f"[{cell.label}] {text}")

    try:
        run_cell(cell, out, tell)
    except Interrupted:
        sys.exit(130)
    except UserError as error:
        tell(f"failed: {error}")
        sys.exit(2)
    except BaseException:
        tell(traceback.format_exc())
        raise


def _relay(messages: Any, tell: Tell) -> None:
    """Pass on what workers say, waiting a moment for the first word."""
    wait = 0.2
    while True:
        try:
            tell(messages.get(timeout=wait))
        except queue.Empty:
            return
        wait = 0.0


def _failure(process: BaseProcess, stopping: bool) -> list[str]:
    """Return the sentence on a worker that failed; none for one that finished or was told to stop."""
    process.join()
    if process.exitcode == 0 or stopping:
        return []
    return [f"The cell '{process.name}' failed (exit code {process.exitcode}); see above."]
