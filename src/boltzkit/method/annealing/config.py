"""How to learn a target without data."""

import math
from typing import Literal, Self

from pydantic import Field, NonNegativeInt, PositiveFloat, PositiveInt

from boltzkit.config import Config

__all__ = ["AnnealingConfig"]

_ENOUGH = 5_000
"""Conformers that a start can learn from."""


class AnnealingConfig(Config):
    """A chain of intermediate targets, from what the flow draws to the target; each is learned from a buffer."""

    evaluations: PositiveInt = 1_000_000
    """Energy evaluations of the whole training, kept to the unit; the stages share what pre-training leaves."""
    pretraining: NonNegativeInt = 0
    """Steps before the first stage, on what `start` says."""
    start: Literal["reverse_kl", "harmonic"] = "reverse_kl"
    """`reverse_kl`: the target at the hottest temperature, a batch of evaluations per step (TA-BG). `harmonic`: of a
    molecule, fluctuations about its minimised structure with torsions that turn freely, for two evaluations per
    coordinate in all."""
    warmth: PositiveFloat = 1.5
    """Temperature of the harmonic start's fluctuations, in units of the target's."""
    relaxation: float = Field(0.0, ge=0, lt=1)
    """Share of the evaluations, at most, by which the harmonic start relaxes bonds and angles of random conformers,
    5,000 of them where the share allows it, so that basins other than that of the minimised structure begin with
    angles of their own."""
    relaxation_steps: PositiveInt = 3
    """Steps by which each conformer is relaxed, at an evaluation each."""
    relaxed_torsions: bool = False
    """Let torsions follow their forces too, by a few degrees a step: conformers of larger molecules overlap otherwise,
    and no bond or angle can help it."""
    descent: NonNegativeInt = 0
    """Steps of the reverse KL at the hottest temperature that follow a harmonic start, a batch of evaluations each:
    where atoms of a larger molecule overlap, their forces say where to go, and weights only where not to stay."""
    dropped: NonNegativeInt = 0
    """Samples with the highest energies that a step of the reverse KL leaves out."""
    stages: PositiveInt = 60
    """Intermediate targets."""
    growth: float = Field(1.0, ge=1)
    """How many times as many evaluations the last stage has as the first; geometric between them. Early stages only
    drive atoms apart, and need few."""
    first_steps: PositiveInt | None = None
    """Steps of the first stage, from which later ones grow geometrically to fill the training; none lets steps grow as
    evaluations do. Early buffers are small and learned by heart in long stages, while the target itself, once it is
    reached, rewards every step."""
    path: Literal["tempered", "geometric", "temperature"] = "tempered"
    """`tempered`: between the flow and the target at a temperature that falls (CMT); `geometric`: the same at the
    target's own temperature; `temperature`: the target at falling temperatures, without the flow (TA-BG)."""
    trust: PositiveFloat | None = 0.3
    """Largest KL divergence of the next intermediate target from the flow, in nats; none lets it go all the way."""
    effective: PositiveInt | None = None
    """Effective number of samples that is enough to learn from: where all buffers that a stage learns from keep it, the
    next intermediate target may lie further than `trust`; none keeps the bound everywhere."""
    entropy: PositiveFloat | None = None
    """Largest loss of entropy in one stage, in nats, which then chooses the temperature instead of the schedule."""
    hottest: float = Field(4.0, ge=1)
    """Temperature of the first stage, in units of the target's."""
    cooling: float = Field(0.5, gt=0, le=1)
    """Share of the stages over which the temperature falls, geometrically, to the target's."""
    ceiling: PositiveFloat = 100.0
    """How far above the lowest tenth of a buffer reduced energies count as they are; of what exceeds that, the path
    takes only the logarithm. Atoms that overlap are then driven apart in a few stages, whether their energy is a
    thousand or a billion. Weights of results never see it."""
    averaged: bool = False
    """Begin each stage with the average of the flow's parameters over about the last tenth of the stage before, which
    draws better samples than the last of them, still shaken by its batch."""
    restarts: NonNegativeInt = 3
    """How often a stage that made the flow worse may be undone: the flow goes back to where the stage began and learns
    again from the samples that are there, under half the trust. Costs no evaluation."""
    reuse: PositiveInt = 1
    """Buffers that a stage learns from: its own, and of those before it the newest."""
    clip: float = Field(0.0, ge=0, lt=1)
    """Share of each buffer whose weights, the largest, are set to the smallest of them: where nothing bounds how far
    the next target lies, a few samples would be all that is learned (TA-BG takes 10⁻⁴)."""
    resampled: bool = True
    """Draw batches by weight instead of weighting what is drawn: where few samples carry the weight, a batch of equal
    ones tells more."""
    held_out: float = Field(0.1, ge=0, lt=1)
    """Share of each buffer that is not learned from, and tells memory from learning."""

    def within(self, evaluations: int) -> Self:
        """Return the same path with another budget; the effective samples that are enough change in proportion.

        >>> AnnealingConfig(evaluations=1_000_000, effective=4_000).within(100_000).effective
        400
        """
        enough = self.effective and max(1, self.effective * evaluations // self.evaluations)
        return self.model_copy(update={"evaluations": evaluations, "effective": enough})

    def pretraining_cost(self, batch: int, dim: int) -> int:
        """Return the energy evaluations before the first stage."""
        if not self.pretraining:
            return 0
        if self.start == "harmonic":
            return 2 * dim + self.relaxation_steps * self.conformers() + self.descent * batch
        return self.pretraining * batch

    def conformers(self) -> int:
        """Return how many conformers the harmonic start relaxes.

        >>> [AnnealingConfig(evaluations=n, relaxation=0.05).conformers() for n in (60_000, 1_000_000)]
        [1000, 5000]
        """
        return min(_ENOUGH, round(self.relaxation * self.evaluations) // self.relaxation_steps)

    def stage_evaluations(self, total: int) -> list[int]:
        """Return at how many of a total of evaluations each stage begins, and the total at the end.

        >>> AnnealingConfig(stages=4).stage_evaluations(10)
        [0, 2, 5, 7, 10]
        """
        return self._starts(total, self.growth)

    def stage_steps(self, total: int) -> list[int]:
        """Return at which of so many steps each stage begins, and the total at the end.

        >>> AnnealingConfig(stages=3, first_steps=10).stage_steps(70)
        [0, 10, 30, 70]
        >>> AnnealingConfig(stages=3, first_steps=10).stage_steps(15)
        [0, 5, 10, 15]
        """
        if self.first_steps is None:
            return self._starts(total, self.growth)
        low, high = 0.0, math.log(max(1.0, total / self.first_steps))
        for _ in range(50):
            middle = 0.5 * (low + high)
            longer = self._first_length(math.exp(middle)) * total > self.first_steps
            low, high = (middle, high) if longer else (low, middle)
        return self._starts(total, math.exp(low))

    def _first_length(self, growth: float) -> float:
        """Return the share of the whole that the first stage has."""
        ratio = growth ** (1 / max(1, self.stages - 1))
        return 1 / float(sum(ratio**stage for stage in range(self.stages)))

    def _starts(self, total: int, growth: float) -> list[int]:
        ratio = growth ** (1 / max(1, self.stages - 1))
        lengths = [ratio**stage for stage in range(self.stages)]
        return [int(total * sum(lengths[:stage]) / sum(lengths)) for stage in range(self.stages)] + [total]
