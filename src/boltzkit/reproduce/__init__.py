"""The paper's tables and ablations, by name, at several scales."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from boltzkit.reproduce.experiment import Experiment
from boltzkit.reproduce.gmm import SCALES as GMM_SCALES
from boltzkit.reproduce.gmm import gmm_experiment
from boltzkit.reproduce.run import run_experiment
from boltzkit.reproduce.study import plan
from boltzkit.reproduce.unbiased import STUDIES

__all__ = ["EXPERIMENTS", "Entry", "run_experiment"]


@dataclass(frozen=True)
class Entry:
    """An experiment that can be asked for.

    Args:
        title: what it is.
        scales: names of its scales, smallest first.
        plan: (scale, dataset folder or None, device) -> the experiment.
    """

    title: str
    scales: tuple[str, ...]
    plan: Callable[[str, Path | None, str], Experiment]


EXPERIMENTS: dict[str, Entry] = {
    "gmm": Entry(
        "The Gaussian mixture: four objectives, three data sizes",
        tuple(GMM_SCALES),
        lambda scale, data, device: gmm_experiment(scale),
    ),
    **{
        name: Entry(study.title, tuple(study.scales), partial(plan, study)) for name, study in STUDIES.items()
    },
}
"""Experiments by name."""
