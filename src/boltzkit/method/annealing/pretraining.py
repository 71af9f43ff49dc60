"""Before annealing: the reverse KL at a high temperature, where modes are connected (TA-BG), or a harmonic start."""

from copy import deepcopy
from dataclasses import replace

import torch
from torch import Tensor

from boltzkit.energy import Target
from boltzkit.method.annealing.harmonic import HarmonicStart, coordinates_of
from boltzkit.objective import Batch, ForwardKL, ModelBatch, Objective, ReverseKL
from boltzkit.randomness import generator
from boltzkit.training import Problem

__all__ = ["Tempered", "harmonic_pretraining", "tempered_pretraining"]


class Tempered(Target):
    """A target at another temperature, in units of its own; evaluations are counted by the target itself.

    Args:
        target: the target.
        temperature: T, so that the energy is u/T.
    """

    def __init__(self, target: Target, temperature: float) -> None:
        self.name, self.event_shape = target.name, target.event_shape
        self._target, self._temperature = target, temperature

    @property
    def evaluations(self) -> int:
        """Configurations evaluated so far, at whatever temperature."""
        return self._target.evaluations

    @evaluations.setter
    def evaluations(self, value: int) -> None:
        self._target.evaluations = value

    def _energy(self, x: Tensor) -> Tensor:
        return self._target._energy(x) / self._temperature


def tempered_pretraining(
    problem: Problem, temperature: float, batch: int, seed: int, dropped: int
) -> Problem:
    """Return what is learned first: the same flow, by the reverse KL at a temperature.

    Args:
        problem: what is learned afterwards.
        temperature: in units of the target's.
        batch: samples per step, each an evaluation.
        seed: of the samples.
        dropped: samples with the highest energies that each step leaves out; one overlap would decide its gradient.
    """
    target = Tempered(problem.target, temperature)

    def draw(step: int) -> ModelBatch:
        return ModelBatch(problem.flow.latent(batch, generator(seed, "pretraining batch", step)), target)

    objective = Objective(ReverseKL(drop_highest=dropped))
    return replace(problem, objective=objective, target=target, batch=draw, centre=None)


def harmonic_pretraining(problem: Problem, start: HarmonicStart, batch: int, seed: int) -> Problem:
    """Return what is learned first: the same flow, by the forward KL on fresh samples of a harmonic start."""
    coordinates = deepcopy(coordinates_of(problem.flow)).cpu()
    parameter = next(problem.flow.parameters())

    def draw(step: int) -> Batch:
        y = start.sample(batch, generator(seed, "harmonic batch", step))
        with torch.no_grad():
            x = coordinates.transform(y)[0].to(parameter)
        return Batch(x, x.new_zeros(batch))

    return replace(problem, objective=Objective(ForwardKL()), batch=draw, centre=None)
