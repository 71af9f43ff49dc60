"""Errors meant for people: one clear sentence that says what is wrong, where, and what to do."""

import difflib
from collections.abc import Iterable

__all__ = ["Interrupted", "TrainingFailed", "UserError", "did_you_mean"]


class UserError(Exception):
    """Something the user can mend. The command line prints the sentence and exits with code 2."""


class TrainingFailed(UserError):
    """No step gave a finite gradient for too long; a tuner may go on with other settings."""


class Interrupted(Exception):
    """A run was asked to stop and has saved its state. The command line exits with code 130."""


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return `` Did you mean 'x'?`` for the nearest known word, or the list of known words.

    >>> did_you_mean("stpes", ["steps", "batch"])
    " Did you mean 'steps'?"
    """
    names = sorted(known)
    close = difflib.get_close_matches(word, names, n=1, cutoff=0.6)
    return f" Did you mean '{close[0]}'?" if close else f" Known: {', '.join(names)}."
