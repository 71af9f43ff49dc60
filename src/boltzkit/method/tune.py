"""A small honest tuner: learning rate and λ_data on validation data, by grid or successive halving."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import Field, NonNegativeInt, PositiveFloat

from boltzkit.config import Config
from boltzkit.data.lock import sole_writer
from boltzkit.errors import UserError
from boltzkit.method.config import RunConfig
from boltzkit.method.fit import check_config
from boltzkit.method.system import build_energy
from boltzkit.method.trial import Trial
from boltzkit.method.trial_group import TrialGroup, run_group, trial_groups, with_setting
from boltzkit.method.trial_store import TrialStore
from boltzkit.method.trial_workers import run_groups_on
from boltzkit.method.validation import Validation
from boltzkit.training import Watch
from boltzkit.workers import Tell, Workers

__all__ = ["TuneConfig", "Tuning", "tune", "tuning_steps"]


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
class Tuning:
    """All trials, and the best of the last rung."""

    trials: tuple[Trial, ...]
    best: Trial

    def apply(self, config: RunConfig) -> RunConfig:
        """Return the configuration with the best setting."""
        return with_setting(config, self.best.learning_rate, self.best.data_weight)


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
        tuner = _Tuner(config, options, TrialStore(out, config, options), watch, tell, workers)
        trials = tuner.widened(tuner.walked(settings))
        if not math.isfinite(trials[0].score):
            raise UserError("Every trial failed: try lower learning rates.")
        return Tuning(tuple(tuner.store.all_trials()), trials[0])


def tuning_steps(config: RunConfig, options: TuneConfig) -> int:
    """Return how many gradient steps a tuning takes, over all its trials and seeds."""
    trials, total = len(_grid(config, options)), 0
    for share in options.rungs:
        total += trials * len(options.seeds) * _rung_steps(config, share)
        trials = min(trials, _survivors(trials, options))
    return total


@dataclass(frozen=True)
class _Tuner:
    """Trains settings rung by rung, as far as their trials are not stored yet."""

    config: RunConfig
    options: TuneConfig
    store: TrialStore
    watch: Watch | None
    tell: Tell
    workers: Workers | None

    def walked(self, settings: list[tuple[float, float]]) -> list[Trial]:
        """Walk all rungs, the best of each to the next; return the trials of the last, the best first."""
        trials: list[Trial] = []
        for number in range(len(self.options.rungs)):
            trials = self._rung(number, settings)
            kept = trials[: _survivors(len(trials), self.options)]
            settings = [(trial.learning_rate, trial.data_weight) for trial in kept]
        return trials

    def widened(self, trials: list[Trial]) -> list[Trial]:
        """Try more rates at the last rung while the best lies on an edge; return all its trials, the best first."""
        for _ in range(self.options.beyond):
            if (rate := _beyond_edge(self.options, trials)) is None:
                break
            more = self._rung(len(self.options.rungs) - 1, [(rate, trials[0].data_weight)])
            trials = sorted([*trials, *more], key=lambda trial: trial.score)
        return trials

    def _rung(self, number: int, settings: list[tuple[float, float]]) -> list[Trial]:
        """Train settings at a rung; return their trials, the best first."""
        steps = _rung_steps(self.config, self.options.rungs[number])
        groups = trial_groups(self.config, number, steps, settings)
        self.store.expect([group.name for group in groups])
        place = f"tuning, rung {number + 1} of {len(self.options.rungs)}"
        if self.workers is None:
            self._train_here(groups, place)
        else:
            self._train_on(self.workers, groups, place)
        trials = [trial for group in groups for trial in self.store.get(group.name)]
        return sorted(trials, key=lambda trial: trial.score)

    def _train_here(self, groups: Sequence[TrialGroup], place: str) -> None:
        """Train groups one by one, each announced when its turn comes."""
        for group in groups:
            self.tell(f"{place}: {group.words}")
            if group.name not in self.store:
                folder = self.store.out / group.name
                trials = run_group(self.config, self.options.seeds, group, folder, self.watch)
                self.store.add(group.name, trials)

    def _train_on(self, workers: Workers, groups: Sequence[TrialGroup], place: str) -> None:
        """Train groups side by side, all of them announced before."""
        for group in groups:
            self.tell(f"{place}: {group.words}")
        missing = [group for group in groups if group.name not in self.store]
        run_groups_on(workers, self.config, self.options.seeds, missing, self.store, self.tell)


def _beyond_edge(options: TuneConfig, trials: Sequence[Trial]) -> float | None:
    """Return the next rate beyond the grid if the best lies on its edge; two significant digits are enough."""
    best = trials[0]
    tried = sorted({*options.learning_rates, *(trial.learning_rate for trial in trials)})
    if len(tried) < 2 or not math.isfinite(best.score) or best.learning_rate not in (tried[0], tried[-1]):
        return None
    factor = math.sqrt(10) if best.learning_rate == tried[-1] else 1 / math.sqrt(10)
    return float(f"{factor * best.learning_rate:.2g}")


def _grid(config: RunConfig, options: TuneConfig) -> list[tuple[float, float]]:
    return [(rate, weight) for rate in options.learning_rates for weight in _weights(config, options)]


def _rung_steps(config: RunConfig, share: float) -> int:
    return max(1, round(share * config.training.steps))


def _survivors(trials: int, options: TuneConfig) -> int:
    return max(2, math.ceil(options.keep * trials))


def _weights(config: RunConfig, options: TuneConfig) -> tuple[float, ...]:
    both = config.objective.dispersion != "none" and config.objective.data != "none"
    return options.data_weights if both else (config.objective.data_weight,)
