"""The paper's tables and ablations, by name, at several scales."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from boltzkit.reproduce.biased import SCALES as BIASED_SCALES
from boltzkit.reproduce.biased import biased_experiment
from boltzkit.reproduce.cartesian import CARTESIAN_STUDIES, plan_cartesian
from boltzkit.reproduce.experiment import Experiment
from boltzkit.reproduce.gmm import SCALES as GMM_SCALES
from boltzkit.reproduce.gmm import gmm_experiment
from boltzkit.reproduce.known_answers import SCALES as KNOWN_SCALES
from boltzkit.reproduce.known_answers import known_answers_experiment
from boltzkit.reproduce.run import run_experiment
from boltzkit.reproduce.study import Study, plan
from boltzkit.reproduce.unbiased import STUDIES
from boltzkit.reproduce.variational import plan_variational
from boltzkit.reproduce.variational_scales import VARIATIONAL_STUDIES

__all__ = ["EXPERIMENTS", "Entry", "run_experiment"]


@dataclass(frozen=True)
class Entry:
    """An experiment that can be asked for.

    Args:
        title: what it is.
        scales: names of its scales, smallest first.
        plan: (scale, dataset folder or None, device, folder of the results) -> the experiment.
    """

    title: str
    scales: tuple[str, ...]
    plan: Callable[[str, Path | None, str, Path], Experiment]


def _unbiased(study: Study, scale: str, data: Path | None, device: str, out: Path) -> Experiment:
    return plan(study, scale, data, device)


EXPERIMENTS: dict[str, Entry] = {
    "gmm": Entry(
        "The Gaussian mixture: four objectives, three data sizes",
        tuple(GMM_SCALES),
        lambda scale, data, device, out: gmm_experiment(scale),
    ),
    **{
        name: Entry(study.title, tuple(study.scales), partial(_unbiased, study))
        for name, study in STUDIES.items()
    },
    **{
        name: Entry(study.title, tuple(study.scales), partial(plan_cartesian, study))
        for name, study in CARTESIAN_STUDIES.items()
    },
    **{
        name: Entry(study.title, tuple(study.scales), partial(plan_variational, study))
        for name, study in VARIATIONAL_STUDIES.items()
    },
    "known-answers": Entry(
        "Mixture, many-well and funnel without data: log Z, modes and verdicts",
        tuple(KNOWN_SCALES),
        lambda scale, data, device, out: known_answers_experiment(scale),
    ),
    "aldp-biased": Entry("Alanine dipeptide from biased data", tuple(BIASED_SCALES), biased_experiment),
}
"""Experiments by name.

:meta hide-value:
"""
