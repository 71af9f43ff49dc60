"""boltzkit train: a recipe becomes a run folder."""

from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from boltzkit.cli.figures import aligned, step_figures, whole_number
from boltzkit.cli.progress import progress, tell
from boltzkit.cli.recipe import Settings, resolve
from boltzkit.cli.voice import one_voice
from boltzkit.errors import UserError

if TYPE_CHECKING:
    from boltzkit.method import ObjectiveConfig, RunConfig

__all__ = ["train"]


def train(
    recipe: str | None = None,
    /,
    *,
    out: Path | None = None,
    settings: Settings = (),
    seed: int | None = None,
    evaluations: float | None = None,
    list_recipes: Annotated[bool, Parameter(name="--list", negative=(), show_default=False)] = False,
    show: Annotated[bool, Parameter(negative=(), show_default=False)] = False,
) -> None:
    """Train a flow on samples of a target, or on its energy alone.

    A recipe is a complete set of settings under a name: `--list` names all recipes, `--show` prints every
    setting of one with its meaning, and `--set` changes one. Ctrl-C or SIGTERM saves the run and stops.
    The same command again goes on where it stopped, bit for bit as if it had never stopped. Several processes or
    GPUs train together under torchrun, to the same result: `torchrun --nproc-per-node 2 -m boltzkit train ...`.

    **Examples**

    ```
    boltzkit train --list
    boltzkit train gmm --show
    boltzkit train gmm --out runs/a
    boltzkit train gmm --out runs/b --set objective.dispersion=l1
    boltzkit train gmm --out runs/c --set data.path=mine.npy
    boltzkit train unbiased --out runs/w --set target.molecule=ACE-TRP-NME --set data.path=data/trp
    boltzkit train biased --out runs/u --set data.path=data/metadynamics
    boltzkit train cmt --evaluations 3e5 --out runs/e --set target.molecule=ACE-VAL-NME
    boltzkit train runs/a/config.json --out runs/d --seed 1
    ```

    **Files in the run folder**

    - `config.json`: every setting of the run
    - `provenance.json`: versions, threads, seed, commit
    - `metrics.jsonl`: one line of numbers every training.log_every steps
    - `checkpoints/`: the newest two states (safetensors and JSON)

    Args:
        recipe: Name of a recipe (see --list), or the config.json of another run.
        out: Folder of the run.
        settings: Change one setting, group.name=value. Repeat it for more.
        seed: Short for --set seed=N.
        evaluations: Energy evaluations of a run without data, such as 1e6; kept to the unit. What is in proportion
            to them in a recipe follows.
        list_recipes: Name the recipes and stop.
        show: Print every setting with its meaning and stop.
    """
    if list_recipes:
        return _list()
    with one_voice():
        config = resolve(recipe, settings, seed)
        if evaluations is not None:
            config = _within(config, whole_number(evaluations, "--evaluations"), settings)
        if show:
            return _show(config)
        if out is None:
            raise UserError("Say where the run shall live: --out runs/NAME.")
        _run(str(recipe), config, out)


def _within(config: "RunConfig", evaluations: int, settings: tuple[str, ...]) -> "RunConfig":
    """Return the run with a budget of energy evaluations, and with what follows from it unless that was set."""
    for name in ("annealing", "fab"):
        if any(text.startswith(f"{name}.evaluations=") for text in settings):
            raise UserError(f"--evaluations and --set {name}.evaluations say the same: give one of them.")
    if config.annealing is not None:
        path = config.annealing.within(evaluations)
        if any(text.startswith("annealing.effective=") for text in settings):
            path = path.model_copy(update={"effective": config.annealing.effective})
        return config.model_copy(update={"annealing": path})
    if config.fab is not None:
        return config.with_overrides([f"fab.evaluations={evaluations}"])
    raise UserError("--evaluations is for runs without data: cmt, ta-bg or fab.")


def _list() -> None:
    from boltzkit.method import RECIPES

    firsts = [(name, (recipe.__doc__ or "").split("\n")[0]) for name, recipe in RECIPES.items()]
    print(aligned(firsts))
    print("\nNext: boltzkit train NAME --show, or boltzkit train NAME --out runs/a")


def _show(config: "RunConfig") -> None:
    from boltzkit.cli.settings import explain

    print("\n".join(explain(config)))


def _run(recipe: str, config: "RunConfig", out: Path) -> None:
    from boltzkit.method import fit
    from boltzkit.ranks import is_first_rank
    from boltzkit.training import RunFolder

    if not is_first_rank():
        fit(config, out)
        return
    done, steps = _steps_done(config, out), config.training.steps
    if done is not None and done < steps:
        going_on = f", going on from step {done:,}" if done else ""
        what = f"{_data(config)}: {_objective(config.objective)}, {steps:,} steps"
        tell(f"Training {recipe} on {what}, in {out}{going_on}.")
    with progress(f"Training {recipe}") as watch:
        _, remarks = fit(config, out, watch, tell)
    for remark in remarks:
        print(f"Remark: {remark}.")
    print(f"{out} is finished: {steps:,} of {steps:,} steps.")
    lines = RunFolder(out).metrics()
    if lines:
        print(aligned([*step_figures(lines[-1]).items()]))
    print(f"Next: boltzkit evaluate {quote(str(out))}")


def _steps_done(config: "RunConfig", out: Path) -> int | None:
    """Return how far this run has come, None where the folder holds another one (and will be refused)."""
    from boltzkit.storage import read_json
    from boltzkit.training import checkpoints

    stored = out / "config.json"
    if stored.is_file() and read_json(stored) != config.model_dump(mode="json"):
        return None
    found = checkpoints(out / "checkpoints")
    return int(read_json(found[-1] / "state.json")["step"]) if found else 0


def _data(config: "RunConfig") -> str:
    if buffered := config.annealing or config.fab:
        return f"{buffered.evaluations:,} evaluations of the energy of {config.target.name}"
    if config.objective.own_samples:
        return f"the energy of {config.target.name}"
    if config.data.path is not None:
        return f"up to {config.data.samples:,} samples of {config.data.path}"
    return f"{config.data.samples:,} samples of {config.target.name}"


def _objective(config: "ObjectiveConfig") -> str:
    """Name the terms with their weights, as the paper writes them."""
    from boltzkit.method.dispersion_name import dispersion_label

    terms = []
    if config.data != "none":
        terms.append(f"{config.data_weight:g} × {config.data.replace('_', ' ').replace('kl', 'KL')}")
    if config.dispersion != "none":
        terms.append(f"{config.dispersion_weight:g} × {dispersion_label(config.dispersion)}")
    return " + ".join(terms)
