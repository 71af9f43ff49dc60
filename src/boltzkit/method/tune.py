"""A small honest tuner: learning rate and λ_data on validation data, by grid or successive halving."""

import math
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pydantic import Field, NonNegativeInt, PositiveFloat

from boltzkit.config import Config
from boltzkit.data.lock import sole_writer
from boltzkit.errors import TrainingFailed, UserError
from boltzkit.method.config import RunConfig
from boltzkit.method.fit import check_config, fit_side_by_side
from boltzkit.method.system import build_energy
from boltzkit.method.validation import Validation
from boltzkit.storage import finite, read_json, write_json
from boltzkit.training import Watch
from boltzkit.workers import Item, Tell, Workers, run_items

__all__ = ["Trial", "TuneConfig", "Tuning", "run_group_of", "tune", "tuning_steps"]


_LOCKS = ".locks"
"""Folder of what only one worker may train at a time."""


class TuneConfig(Config):
    """The grid and how to walk it."""

    learning_rates: tuple[PositiveFloat, ...] = Field((1e-4, 3.2e-4, 1e-3, 3.2e-3), min_length=1)
    """Learning rates to try."""
    data_weights: tuple[PositiveFloat, ...] = Field((0.1, 0.3, 0.5, 0.7, 1.0), min_length=1)
    """λ_data to try; only for objectives with a dispersion and a data term."""
    seeds: tuple[int, ...] = Field((1_001,), min_length=1)
    """Seeds of the trial runs; keep them apart from those of the final runs."""
    rungs: tuple[PositiveFloat, ...] = Field((1.0,), min_length=1)
    """Shares of the full number of steps. One rung is a grid search; several are successive halving, each rung
    a training of its own with its whole schedule."""
    keep: float = Field(1 / 3, gt=0, le=1)
    """Share of the settings that reaches the next rung, two at least."""
    beyond: NonNegativeInt = 0
    """How many more learning rates may be tried at the last rung, as long as the best lies on an edge of the grid: each
    √10 times as large, or as small, as the one on the edge."""


@dataclass(frozen=True)
class Trial:
    """One setting tried at one rung. The score is the mean validation NLL over seeds; inf when a run failed."""

    learning_rate: float
    data_weight: float
    steps: int
    score: float


@dataclass(frozen=True)
class Tuning:
    """All trials, and the best of the last rung."""

    trials: tuple[Trial, ...]
    best: Trial

    def apply(self, config: RunConfig) -> RunConfig:
        """Return the configuration with the best setting."""
        return _with_setting(config, self.best.learning_rate, self.best.data_weight)


def tune(
    config: RunConfig,
    options: TuneConfig,
    out: Path,
    watch: Watch | None = None,
    tell: Tell = lambda text: None,
    workers: Workers | None = None,
) -> Tuning:
    """Try the grid on validation data alone and return the trials; goes on where it stopped.

    Settings that share a learning rate train side by side as one batched model, where the flow has replicas.

    Args:
        config: the run.
        options: the grid.
        out: folder of the trials.
        watch: called with each line of metrics of trainings in this process.
        tell: called with a line at a time.
        workers: where the groups of a rung train, side by side; in this process, one by one, by default. The trials
            are the same.
    """
    settings = _grid(config, options)
    check_config(config)
    if Validation.of((config,), build_energy(config.target), batched=False) is None:
        raise UserError("Tuning needs validation data: set data.validation_path.")
    with sole_writer(out, patience=0):
        return _tune(config, options, settings, out, watch, tell, workers)


def _tune(
    config: RunConfig,
    options: TuneConfig,
    settings: list[tuple[float, float]],
    out: Path,
    watch: Watch | None,
    tell: Tell,
    workers: Workers | None,
) -> Tuning:
    store = _Store(out, config, options)

    def rung(number: int, settings: list[tuple[float, float]]) -> list[Trial]:
        """Train settings at a rung, as far as they are not there yet; return their trials, the best first."""
        steps = _rung_steps(config, options.rungs[number])
        groups = [
            _Group(_group_name(config, number, rate, weights), rate, weights, steps)
            for rate, weights in _groups(config, settings)
        ]
        store.expect([group.name for group in groups])
        if workers is not None:
            for group in groups:
                tell(_announcement(number, options, group))
            _run_elsewhere(config, options, [g for g in groups if g.name not in store], store, workers, tell)
        trials = []
        for group in groups:
            if workers is None:
                tell(_announcement(number, options, group))
            if group.name not in store:
                store.add(group.name, _run_group(config, options.seeds, group, out / group.name, watch))
            trials += store.get(group.name)
        return sorted(trials, key=lambda trial: trial.score)

    trials: list[Trial] = []
    for number in range(len(options.rungs)):
        trials = rung(number, settings)
        settings = [(t.learning_rate, t.data_weight) for t in trials[: _survivors(len(trials), options)]]
    for _ in range(options.beyond):
        if (rate := _beyond_edge(options, trials)) is None:
            break
        more = rung(len(options.rungs) - 1, [(rate, trials[0].data_weight)])
        trials = sorted([*trials, *more], key=lambda trial: trial.score)
    if not math.isfinite(trials[0].score):
        raise UserError("Every trial failed: try lower learning rates.")
    return Tuning(tuple(store.all_trials()), trials[0])


def _beyond_edge(options: TuneConfig, trials: Sequence[Trial]) -> float | None:
    """Return the next rate beyond the grid if the best lies on its edge; two significant digits are enough."""
    best = trials[0]
    tried = sorted({*options.learning_rates, *(trial.learning_rate for trial in trials)})
    if len(tried) < 2 or not math.isfinite(best.score) or best.learning_rate not in (tried[0], tried[-1]):
        return None
    factor = math.sqrt(10) if best.learning_rate == tried[-1] else 1 / math.sqrt(10)
    return float(f"{factor * best.learning_rate:.2g}")


def tuning_steps(config: RunConfig, options: TuneConfig) -> int:
    """Return how many gradient steps a tuning takes, over all its trials and seeds."""
    trials, total = len(_grid(config, options)), 0
    for share in options.rungs:
        total += trials * len(options.seeds) * _rung_steps(config, share)
        trials = min(trials, _survivors(trials, options))
    return total


@dataclass(frozen=True)
class _Group:
    """What trains at a time."""

    name: str
    rate: float
    weights: list[float]
    steps: int

    @property
    def words(self) -> str:
        """What it tries."""
        shown = ", ".join(f"{weight:g}" for weight in self.weights)
        return f"learning rate {self.rate:g}, λ_data {shown}, {self.steps} steps"


def _run_elsewhere(
    config: RunConfig,
    options: TuneConfig,
    groups: Sequence[_Group],
    store: "_Store",
    workers: Workers,
    tell: Tell,
) -> None:
    """Train groups on workers; each is stored when it is finished."""
    common = {
        "config": config.model_dump(mode="json"),
        "seeds": list(options.seeds),
        "out": str(store.out.resolve()),
    }
    items = [
        Item("group", group.name, f"{__name__}:run_group_of", {**common, "group": asdict(group)})
        for group in groups
    ]

    def take(item: Item, stored: list[dict[str, Any]]) -> None:
        trials = [_trial_of(content) for content in stored]
        store.add(item.label, trials)
        tell(f"[{item.label}] validation NLL " + ", ".join(f"{trial.score:.4f}" for trial in trials))

    run_items(workers, items, take, tell=tell, place=str(store.out))
    shutil.rmtree(store.out / _LOCKS, ignore_errors=True)


def run_group_of(arguments: Mapping[str, Any], tell: Tell) -> list[dict[str, Any]]:
    """Train one group, in a worker, and return its trials."""
    group, out = _Group(**arguments["group"]), Path(arguments["out"])
    config = RunConfig.parse(arguments["config"])
    with sole_writer(out / _LOCKS / group.name):
        trials = _run_group(config, tuple(arguments["seeds"]), group, out / group.name, None)
    return [finite(asdict(trial)) for trial in trials]


def _trial_of(stored: Mapping[str, Any]) -> Trial:
    """Return a trial from what JSON holds of it: infinity is null there."""
    return Trial(**{**stored, "score": math.inf if stored["score"] is None else stored["score"]})


def _grid(config: RunConfig, options: TuneConfig) -> list[tuple[float, float]]:
    return [(rate, weight) for rate in options.learning_rates for weight in _weights(config, options)]


def _rung_steps(config: RunConfig, share: float) -> int:
    return max(1, round(share * config.training.steps))


def _survivors(trials: int, options: TuneConfig) -> int:
    return max(2, math.ceil(options.keep * trials))


def _groups(config: RunConfig, settings: list[tuple[float, float]]) -> list[tuple[float, list[float]]]:
    """Return what trains at a time: all weights of a learning rate, or single ones where flows go one by one."""
    rates = sorted({rate for rate, _ in settings})
    grouped = [(rate, [weight for r, weight in settings if r == rate]) for rate in rates]
    if _side_by_side(config):
        return grouped
    return [(rate, [weight]) for rate, weights in grouped for weight in weights]


def _side_by_side(config: RunConfig) -> bool:
    return config.has_replicas


def _group_name(config: RunConfig, number: int, rate: float, weights: list[float]) -> str:
    name = f"rung-{number + 1}-rate-{rate:g}"
    return name if _side_by_side(config) else f"{name}-weight-{weights[0]:g}"


def _announcement(number: int, options: TuneConfig, group: _Group) -> str:
    place = f"tuning, rung {number + 1} of {len(options.rungs)}"
    return f"{place}: {group.words}"


def _weights(config: RunConfig, options: TuneConfig) -> tuple[float, ...]:
    both = config.objective.dispersion != "none" and config.objective.data != "none"
    return options.data_weights if both else (config.objective.data_weight,)


def _with_setting(config: RunConfig, rate: float, weight: float) -> RunConfig:
    training = config.training.model_copy(update={"learning_rate": rate})
    objective = config.objective.model_copy(update={"data_weight": weight})
    return config.model_copy(update={"training": training, "objective": objective})


def _shortened(config: RunConfig, steps: int) -> RunConfig:
    """Return a run of fewer steps whose warm-ups shrink in proportion."""
    share = steps / config.training.steps
    warm_up = round(share * config.training.warm_up)
    training = config.training.model_copy(update={"steps": steps, "warm_up": warm_up})
    objective = config.objective.model_copy(update={"warm_up": round(share * config.objective.warm_up)})
    return config.model_copy(update={"training": training, "objective": objective})


def _run_group(
    config: RunConfig, seeds: tuple[int, ...], group: _Group, folder: Path, watch: Watch | None
) -> list[Trial]:
    rate, weights, steps = group.rate, group.weights, group.steps
    short = _shortened(config, steps)
    runs = [
        _with_setting(short, rate, weight).model_copy(update={"seed": seed})
        for weight in weights
        for seed in seeds
    ]
    try:
        models = fit_side_by_side(runs, folder, watch)
    except TrainingFailed:
        return [Trial(rate, weight, steps, math.inf) for weight in weights]
    scores = []
    for model in models:
        validation = Validation.of((model.config,), model.target, batched=False)
        assert validation is not None, "looked at before the first training"
        scores.append(float(validation(model.flow)["validation_nll"]))
    per_weight = [scores[i : i + len(seeds)] for i in range(0, len(scores), len(seeds))]
    means = [sum(part) / len(part) for part in per_weight]
    return [
        Trial(rate, weight, steps, mean if math.isfinite(mean) else math.inf)
        for weight, mean in zip(weights, means, strict=True)
    ]


class _Store:
    """Finished groups of trials on disk, so that a stopped tuning goes on with the next group."""

    def __init__(self, out: Path, config: RunConfig, options: TuneConfig) -> None:
        self.path, self.out, self._order = out / "trials.json", out, list[str]()
        question = {"config": config.model_dump(mode="json"), "options": options.model_dump(mode="json")}
        self.content: dict[str, Any] = {"question": question, "groups": {}}
        if self.path.is_file():
            stored = read_json(self.path)
            if not _is_asked(stored["question"], config, options):
                raise UserError(
                    f"{out} holds a tuning with other settings: choose another folder with --out."
                )
            self.content = stored

    def __contains__(self, name: str) -> bool:
        return name in self.content["groups"]

    def expect(self, names: Sequence[str]) -> None:
        """Name the groups of a rung in their order, which is kept whichever of them finishes first."""
        self._order += names
        for name in filter(self.__contains__, names):  # a kill may have come before its run was cleared away
            shutil.rmtree(self.out / name, ignore_errors=True)

    def add(self, name: str, trials: list[Trial]) -> None:
        groups = {**self.content["groups"], name: [finite(asdict(trial)) for trial in trials]}
        self.content["groups"] = {known: groups[known] for known in self._order if known in groups}
        write_json(self.path, self.content)
        shutil.rmtree(self.out / name, ignore_errors=True)

    def get(self, name: str) -> list[Trial]:
        return [_trial_of(stored) for stored in self.content["groups"][name]]

    def all_trials(self) -> list[Trial]:
        return [_trial_of(stored) for group in self.content["groups"].values() for stored in group]


def _is_asked(question: dict[str, Any], config: RunConfig, options: TuneConfig) -> bool:
    return config.is_stored_as(question["config"]) and options.is_stored_as(question["options"])
