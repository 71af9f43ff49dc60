"""Finished trials of a tuning on disk."""

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from boltzkit.config import Config
from boltzkit.errors import UserError
from boltzkit.method.config import RunConfig
from boltzkit.method.trial import Trial, stored_trial, trial_of
from boltzkit.storage import read_json, write_json

__all__ = ["TrialStore"]


class TrialStore:
    """Finished groups of trials on disk, so that a stopped tuning goes on with the next group.

    Args:
        out: folder of the tuning; what is stored there must be of the same settings.
        config: the run.
        options: the grid, and how it is walked.
    """

    def __init__(self, out: Path, config: RunConfig, options: Config) -> None:
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

    def add(self, name: str, trials: Sequence[Trial]) -> None:
        """Store the trials of a finished group, and clear its runs away."""
        groups = {**self.content["groups"], name: [stored_trial(trial) for trial in trials]}
        self.content["groups"] = {known: groups[known] for known in self._order if known in groups}
        write_json(self.path, self.content)
        shutil.rmtree(self.out / name, ignore_errors=True)

    def get(self, name: str) -> list[Trial]:
        """Return the trials of a finished group."""
        return [trial_of(stored) for stored in self.content["groups"][name]]

    def all_trials(self) -> list[Trial]:
        """Return the trials of all finished groups, in the order in which they were expected."""
        return [trial_of(stored) for group in self.content["groups"].values() for stored in group]


def _is_asked(question: dict[str, Any], config: RunConfig, options: Config) -> bool:
    return config.is_stored_as(question["config"]) and options.is_stored_as(question["options"])
