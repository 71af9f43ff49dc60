"""boltzkit reproduce: the paper's tables by name."""

import os
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from boltzkit.cli.figures import aligned
from boltzkit.cli.progress import tell
from boltzkit.errors import UserError, did_you_mean

__all__ = ["reproduce"]


def reproduce(
    name: str | None = None,
    /,
    *,
    out: Path | None = None,
    scale: Literal["smoke", "demo", "laptop", "paper"] = "laptop",
    data: Path | None = None,
    tica: Path | None = None,
    row: list[str] | None = None,
    workers: int | None = None,
    dask: str | None = None,
    timeout: float | None = None,
    device: str = "cpu",
    list_experiments: Annotated[bool, Parameter(name="--list", negative=(), show_default=False)] = False,
) -> None:
    """Run an experiment of the paper from start to end and set its table beside the paper's.

    Tuning on validation data, training over several seeds, evaluation on test data, table and figures: one command.
    It starts with an estimate of the time. Finished cells are kept, and unfinished ones go on from their last
    checkpoint, so a stopped reproduction goes on with the same command.

    **Examples**

    ```
    boltzkit reproduce --list
    boltzkit reproduce gmm --scale demo
    boltzkit reproduce aldp-unbiased --data data/alanine-dipeptide --out results/aldp-unbiased
    boltzkit reproduce gmm --scale paper --dask scheduler.json
    ```

    **Files in the folder**

    - `report.html`: one page to read
    - `table.md`, `table.csv`: means and standard deviations over seeds, the paper's beside them
    - `cells/`: the numbers of every cell, with settings and provenance
    - `models/`: one trained flow per row of a main table, for boltzkit evaluate and sample

    Args:
        name: Name of the experiment (see --list).
        out: Folder of the results; results/NAME-SCALE by default.
        scale: smoke takes seconds and means nothing, demo runs a corner of a table, laptop a shortened one, paper all
            of it. Not every experiment has every scale.
        data: Dataset of the molecule with train, validation and test samples, as boltzkit simulate makes it.
        tica: Dataset of molecular dynamics to fit slow coordinates on, for columns of the table that need them.
        row: A row to run, for a part of a long table: the name of its cell, or a pattern such as '*-cmt*'. Give --row
            again for more. The report shows all that are finished.
        workers: Processes side by side, one thread each; one per core by default.
        dask: Address or file of a dask scheduler, whose workers run the cells instead. They must see the folders, and
            you must trust the scheduler: it can run any code.
        timeout: Seconds that a worker may take for one cell; then it is ended, and the cell goes on in another one.
        device: Where molecules train: cpu, cuda, mps or a numbered device.
        list_experiments: Name the experiments with their scales and stop.
    """
    from boltzkit.reproduce import EXPERIMENTS, run_experiment
    from boltzkit.workers import WorkerOptions

    if list_experiments:
        print(aligned([(key, f"{e.title} ({', '.join(e.scales)})") for key, e in EXPERIMENTS.items()]))
        return
    workers = os.cpu_count() or 1 if workers is None else workers
    if workers < 1:
        raise UserError(f"At least one worker must run, not {workers}: set --workers 1.")
    given = {"workers": workers, "dask": dask, "timeout": timeout}
    where = WorkerOptions.parse(given, source="boltzkit reproduce")
    if name is None:
        raise UserError(f"Name an experiment: {', '.join(EXPERIMENTS)}.")
    if name not in EXPERIMENTS:
        raise UserError(f"There is no experiment '{name}'.{did_you_mean(name, EXPERIMENTS)}")
    entry = EXPERIMENTS[name]
    if scale not in entry.scales:
        raise UserError(f"{name} has no scale '{scale}': choose {' or '.join(entry.scales)}.")
    folder = Path("results", f"{name}-{scale}") if out is None else out
    experiment = entry.plan(scale, data, device, folder)
    if tica is not None:
        experiment = experiment.with_dynamics(tica)
    print(f"Written to {run_experiment(experiment, folder, where, tell, row or ())}.")
