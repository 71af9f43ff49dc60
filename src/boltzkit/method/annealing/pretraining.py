"""Before annealing along temperatures (TA-BG): the reverse KL at the hottest of them, where modes are connected."""

from dataclasses import replace

from torch import Tensor

from boltzkit.energy import Target
from boltzkit.objective import Batch, Objective, ReverseKL, draw_batch
from boltzkit.randomness import generator
from boltzkit.training import Problem

__all__ = ["Tempered", "pretraining"]


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


def pretraining(problem: Problem, temperature: float, batch: int, seed: int, dropped: int) -> Problem:
    """Return what is learned first: the same flow, by the reverse KL at a temperature.

    Args:
        problem: what is learned afterwards.
        temperature: in units of the target's.
        batch: samples per step, each an evaluation.
        seed: of the samples.
        dropped: samples with the highest energies that each step leaves out; one overlap would decide its gradient.
    """
    target = Tempered(problem.target, temperature)

    def draw(step: int) -> Batch:
        own = generator(seed, "pretraining batch", step)
        return draw_batch(problem.flow.train(), target, batch, own)

    objective = Objective(ReverseKL(drop_highest=dropped))
    return replace(problem, objective=objective, target=target, batch=draw, centre=None)
