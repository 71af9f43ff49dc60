"""boltzkit reproduce: the paper's tables by name."""

import os
from pathlib import Path
from typing import Literal

from boltzkit.cli.progress import tell
from boltzkit.errors import UserError, did_you_mean

__all__ = ["reproduce"]


def reproduce(
    name: str,
    /,
    *,
    out: Path | None = None,
    scale: Literal["demo", "laptop", "paper"] = "laptop",
    workers: int | None = None,
) -> None:
    """Run an experiment of the paper from start to end and set its table beside the paper's.

    Training data, tuning, training over several seeds, evaluation, table and figures: one command. Finished
    cells are kept, so a stopped reproduction goes on with the same command.

    **Examples**

    ```
    boltzkit reproduce gmm --scale demo
    boltzkit reproduce gmm --scale paper --workers 8 --out results/gmm-paper
    ```

    **Files in the folder**

    - `report.html`: one page to read
    - `table.md`, `table.csv`: means and standard deviations over seeds, the paper's beside them
    - `cells/`: the numbers of every cell, with settings and provenance

    Args:
        name: Name of the experiment: gmm, the Gaussian mixture.
        out: Folder of the results; results/NAME-SCALE by default.
        scale: demo runs a corner of the table, laptop a shortened table, paper all of it with its tuning.
        workers: Processes side by side, one thread each; one per core by default.
    """
    workers = os.cpu_count() or 1 if workers is None else workers
    if workers < 1:
        raise UserError(f"At least one worker must run, not {workers}: set --workers 1.")
    from boltzkit.reproduce import EXPERIMENTS

    if name not in EXPERIMENTS:
        raise UserError(f"There is no experiment '{name}'.{did_you_mean(name, EXPERIMENTS)}")
    folder = Path("results", f"{name}-{scale}") if out is None else out
    report = EXPERIMENTS[name](scale, folder, workers, tell)
    print(f"Written to {report}.")
