"""boltzkit tune: learning rate and λ_data from validation data."""

import math
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from boltzkit.cli.figures import aligned, number
from boltzkit.cli.progress import progress, tell
from boltzkit.cli.recipe import Settings, resolve
from boltzkit.errors import UserError

if TYPE_CHECKING:
    from boltzkit.method import Tuning

__all__ = ["tune"]


def tune(
    recipe: str | None = None,
    /,
    *,
    out: Path,
    learning_rates: str | None = None,
    data_weights: str | None = None,
    seeds: str | None = None,
    rungs: str | None = None,
    beyond: int = 0,
    settings: Settings = (),
    workers: int = 1,
    dask: str | None = None,
    timeout: float | None = None,
) -> None:
    """Find the learning rate and the weight of the data term by trial, on validation data alone.

    Every pair of the grid trains once, and the lowest validation NLL wins. With several rungs (successive
    halving) all pairs train for a share of the steps, and the best third goes on to the next share.
    Pairs with the same learning rate train side by side as one batched model. A stopped tuning goes on with
    the same command.

    **Examples**

    ```
    boltzkit tune gmm --out tuning --learning-rates 1e-4,3.2e-4,1e-3
    boltzkit tune gmm --out tuning --rungs 0.25,1 --beyond 2
    boltzkit tune many-well --out tuning --data-weights 0.1,0.3
    boltzkit tune gmm --out tuning --workers 4
    ```

    **Files in the folder**

    - `trials.json`: every trial with its score

    Args:
        recipe: Name of a recipe, or the config.json of a run.
        out: Folder of the trials.
        learning_rates: Learning rates to try, with commas between.
        data_weights: λ_data to try; only for objectives with a dispersion and a data term.
        seeds: Seeds of the trials; keep them apart from those of the runs to come.
        rungs: Shares of the steps, for example 0.25,1; the default trains every pair to the end.
        beyond: As long as the best learning rate lies on an edge of the grid, try up to so many beyond it.
        settings: Change one setting of the recipe, group.name=value. Repeat it for more.
        workers: Processes that train side by side, one thread each; this one alone by default. The trials are the same.
        dask: Address or file of a dask scheduler, whose workers train instead. They must see the folders, and you must
            trust the scheduler: it can run any code.
        timeout: Seconds that a worker may take for one group of trials; then it goes on in another one.
    """
    given = {"learning_rates": learning_rates, "data_weights": data_weights, "seeds": seeds, "rungs": rungs}
    numbers = {name: _numbers(name, text) for name, text in given.items() if text is not None}
    from boltzkit import method
    from boltzkit.workers import WorkerOptions, workers_if_asked

    where = WorkerOptions.parse(
        {"workers": workers, "dask": dask, "timeout": timeout}, source="boltzkit tune"
    )
    config = resolve(recipe, settings, seed=None)
    options = method.TuneConfig.parse({**numbers, "beyond": beyond}, source="boltzkit tune")
    with progress("Tuning") as watch, workers_if_asked(where, tell) as there:
        tuning = method.tune(config, options, out, watch, tell, there)
    print(aligned(_ranking(tuning)))
    best = [f"training.learning_rate={tuning.best.learning_rate:g}"]
    if tuning.best.data_weight != config.objective.data_weight:
        best.append(f"objective.data_weight={tuning.best.data_weight:g}")
    chosen = [word for setting in (*settings, *best) for word in ("--set", setting)]
    print(f"Next: {shlex.join(['boltzkit', 'train', str(recipe), '--out', 'runs/best', *chosen])}")


def _numbers(name: str, text: str) -> list[float]:
    try:
        return [float(word) for word in text.split(",")]
    except ValueError as error:
        option = f"--{name.replace('_', '-')}"
        raise UserError(
            f"{option} takes numbers with commas between, for example 0.1,0.3, not '{text}'."
        ) from error


def _ranking(tuning: "Tuning") -> list[tuple[str, ...]]:
    """Return the trials, those of the last rung first, best first."""
    header = ("steps", "learning rate", "data weight", "validation NLL")
    trials = sorted(tuning.trials, key=lambda trial: (-trial.steps, trial.score))
    return [
        header,
        *(
            (
                number(trial.steps),
                f"{trial.learning_rate:g}",
                f"{trial.data_weight:g}",
                number(trial.score) if math.isfinite(trial.score) else "failed",
            )
            for trial in trials
        ),
    ]
