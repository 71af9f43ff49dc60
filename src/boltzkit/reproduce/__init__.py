"""The paper's tables, by name, at several scales."""

from collections.abc import Callable
from pathlib import Path

from boltzkit.reproduce.cell import Tell
from boltzkit.reproduce.gmm import SCALES, reproduce_gmm

__all__ = ["EXPERIMENTS", "SCALES"]

EXPERIMENTS: dict[str, Callable[[str, Path, int, Tell], Path]] = {"gmm": reproduce_gmm}
"""Name -> function (scale, out, workers, tell) that runs or goes on and returns the report's path."""
