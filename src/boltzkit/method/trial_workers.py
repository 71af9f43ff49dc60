"""Groups of trials on workers: what is sent to them, and what they do with it."""

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from boltzkit.data.lock import sole_writer
from boltzkit.method.config import RunConfig
from boltzkit.method.trial import stored_trial, trial_of
from boltzkit.method.trial_group import TrialGroup, run_group
from boltzkit.method.trial_store import TrialStore
from boltzkit.workers import Item, Tell, Workers, run_items

__all__ = ["run_group_of", "run_groups_on"]

_LOCKS = ".locks"
"""Folder of what only one worker may train at a time."""


def run_groups_on(
    workers: Workers,
    config: RunConfig,
    seeds: Sequence[int],
    groups: Sequence[TrialGroup],
    store: TrialStore,
    tell: Tell,
) -> None:
    """Train groups on workers; each is stored when it is finished."""
    common = {
        "config": config.model_dump(mode="json"),
        "seeds": list(seeds),
        "out": str(store.out.resolve()),
    }
    items = [
        Item("group", group.name, f"{__name__}:run_group_of", {**common, "group": asdict(group)})
        for group in groups
    ]

    def take(item: Item, stored: list[dict[str, Any]]) -> None:
        trials = [trial_of(content) for content in stored]
        store.add(item.label, trials)
        tell(f"[{item.label}] validation NLL " + ", ".join(f"{trial.score:.4f}" for trial in trials))

    run_items(workers, items, take, tell=tell, place=str(store.out))
    shutil.rmtree(store.out / _LOCKS, ignore_errors=True)


def run_group_of(arguments: Mapping[str, Any], tell: Tell) -> list[dict[str, Any]]:
    """Train one group, in a worker, and return its trials."""
    group, out = TrialGroup(**arguments["group"]), Path(arguments["out"])
    config = RunConfig.parse(arguments["config"])
    with sole_writer(out / _LOCKS / group.name):
        trials = run_group(config, tuple(arguments["seeds"]), group, out / group.name, None)
    return [stored_trial(trial) for trial in trials]
