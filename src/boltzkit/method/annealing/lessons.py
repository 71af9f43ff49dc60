"""The batches of an annealed training: a new buffer at the start of each stage, then passes over it."""

from bisect import bisect_right
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from boltzkit.energy import Target
from boltzkit.errors import UserError
from boltzkit.flow import Flow
from boltzkit.method.annealing.alarm import lost_share, made_worse
from boltzkit.method.annealing.buffer import (
    Buffer,
    Lesson,
    combine,
    draw_buffer,
    furthest,
    log_prob_of,
    weigh,
)
from boltzkit.method.annealing.config import AnnealingConfig
from boltzkit.method.annealing.path import Waypoint, choose
from boltzkit.objective import Batch
from boltzkit.randomness import generator
from boltzkit.ranks import copy_first_rank, of_first_rank
from boltzkit.training import Memory

__all__ = ["AnnealedBatches"]

_STEEPNESS = 10
"""Of the average: the weight of a step grows with the ninth power of its number."""
_LOOKED_AT = 10_000
"""Samples by which the flow is asked what it has lost."""


class AnnealedBatches(Memory):
    """Step -> batch; part of the training's state, so that a resumed stage goes on with the buffer it had.

    Args:
        flow: the flow in training.
        target: the energy; each stage evaluates it on its share of the budget.
        config: the path.
        batch: samples per step.
        steps: of the whole training.
        seed: of buffers and orders.
    """

    def __init__(
        self, flow: Flow, target: Target, config: AnnealingConfig, batch: int, steps: int, seed: int
    ) -> None:
        self.flow, self.target, self.config = flow, target, config
        self.batch, self.seed = batch, seed
        self._first_steps = config.stage_steps(steps)[:-1]
        self._budget = config.evaluations - config.pretraining_cost(batch, flow.base.dim)
        shares = [after - before for before, after in pairwise(config.stage_evaluations(self._budget))]
        if min(shares) < 2:
            raise UserError(
                f"{config.evaluations:,} evaluations are too few for {config.pretraining} steps of pre-training and "
                f"{config.stages} stages, of which the smallest would have {max(0, min(shares))}: raise "
                "annealing.evaluations, or lower annealing.stages or annealing.growth."
            )
        if len(set(self._first_steps)) < config.stages:
            raise UserError(
                f"{steps} steps are too few for {config.stages} stages: raise training.steps, or lower "
                "annealing.stages or annealing.growth."
            )
        self.stage = -1
        self.waypoint = Waypoint(0.0, 1.0)
        self.restarts, self.lost = 0, 0.0
        self.start: dict[str, Tensor] = {}
        self.average: list[Tensor] = []
        self.buffers: list[Buffer] = []
        self.lesson: Lesson | None = None
        self._order = torch.empty(0)

    def __call__(self, step: int) -> Batch:
        """Return the batch of a step; the first one of a stage draws its buffer from the flow as it is.

        Where parameters are averaged, the flow then is the average of the stage before.
        """
        stage = bisect_right(self._first_steps, step) - 1
        if self.config.averaged and self.stage >= 0:
            self._average(step - self._first_steps[self.stage])
        if stage != self.stage:
            self._begin(stage)
        learned, _ = self._split()
        size = min(self.batch, len(learned.energy))
        epoch, position = divmod(step - self._first_steps[stage], len(learned.energy) // size)
        if position == 0 or len(self._order) == 0:
            self._order = self._draw_order(learned, generator(self.seed, f"order of stage {stage}", epoch))
        chosen = learned.part(self._order[position * size : (position + 1) * size])
        parameter = next(self.flow.parameters())
        x, energy, weights = (values.to(parameter) for values in chosen)
        return Batch(x, energy, weights=None if self.config.resampled else weights)

    @torch.no_grad()
    def _average(self, taken: int) -> None:
        """Add the flow after so many steps of a stage to the average: two thirds of it are from the last tenth."""
        parameters = [parameter.detach() for parameter in self.flow.parameters()]
        if not self.average:
            self.average = [parameter.clone() for parameter in parameters]
        else:
            torch._foreach_lerp_(self.average, parameters, _STEEPNESS / (taken + _STEEPNESS - 1))

    def _draw_order(self, learned: Lesson, own: torch.Generator) -> Tensor:
        """Return the samples of one pass in their order: each once, or as often as its weight says."""
        order = torch.randperm(len(learned.energy), generator=own)
        if not self.config.resampled:
            return order
        # Systematic: a sample with 2.3 times the mean weight comes two or three times.
        ends = learned.weights.cumsum(0) / learned.weights.sum()
        n = len(order)
        places = (
            torch.arange(n, dtype=torch.float64) + torch.rand((), generator=own, dtype=torch.float64)
        ) / n
        return torch.searchsorted(ends, places).clamp(max=n - 1)[order]

    def figures(self, flow: Flow) -> dict[str, Tensor]:
        """Return what a person watches: where the path is, and whether the flow learns or memorises."""
        learned, held = self._split()
        found: dict[str, float] = {
            "stage": self.stage,
            "exponent": self.waypoint.exponent,
            "temperature": self.waypoint.temperature,
            "ess": self.buffers[-1].ess_fraction,
            "effective": learned.effective / len(learned.energy),
            "failed_samples": self.buffers[-1].drawn - len(self.buffers[-1].energy),
            "lost_share": self.lost,
            "restarts": self.restarts,
            "budget": self.config.evaluations,
        }
        if len(held.energy) > 1:
            seen = learned.part(
                slice(-len(held.energy), None)
            )  # of the same buffer: others weigh differently
            (nll, spread), (held_nll, held_spread) = (_judge(flow, part) for part in (seen, held))
            found |= {"memory_nll": held_nll - nll, "memory_dispersion": held_spread - spread}
        return {key: torch.tensor(value, dtype=torch.float64) for key, value in found.items()}

    def tensors(self) -> dict[str, Tensor]:
        """Return what a checkpoint needs."""
        content = {
            "stage": torch.tensor(self.stage),
            "waypoint": torch.tensor(self.waypoint, dtype=torch.float64),
            "signs": torch.tensor([self.restarts, self.lost], dtype=torch.float64),
        }
        content |= {f"start.{name}": value for name, value in self.start.items()}
        content |= {f"average.{number}": value for number, value in enumerate(self.average)}
        for number, buffer in enumerate(self.buffers):
            content |= {
                f"{number}.{name}": torch.as_tensor(value) for name, value in buffer._asdict().items()
            }
        if self.lesson is not None:
            content |= {f"lesson.{name}": value for name, value in self.lesson._asdict().items()}
        return content

    def load(self, tensors: dict[str, Tensor]) -> None:
        """Go on from a checkpoint."""
        self.stage, self.waypoint = int(tensors["stage"]), Waypoint(*tensors["waypoint"].tolist())
        restarts, self.lost = tensors["signs"].tolist()
        self.restarts = int(restarts)
        self.start = {name[6:]: value for name, value in tensors.items() if name.startswith("start.")}
        # Of a checkpoint on a CPU, whatever the flow is on.
        self.average = [
            tensors[f"average.{number}"].to(parameter)
            for number, parameter in enumerate(self.flow.parameters())
            if f"average.{number}" in tensors
        ]
        count = sum(name.endswith(".drawn") for name in tensors)
        self.buffers = [_stored_buffer(tensors, f"{number}.") for number in range(count)]
        self.lesson = Lesson(*(tensors[f"lesson.{name}"] for name in Lesson._fields)) if count else None
        self._order = torch.empty(0)

    def _begin(self, stage: int) -> None:
        starts = self.config.stage_evaluations(self._budget)
        if self.average:
            copy_first_rank(self.average)
            with torch.no_grad():
                torch._foreach_copy_(list(self.flow.parameters()), self.average)
            self.average = []
        buffer = draw_buffer(self.flow, self.target, starts[stage + 1] - starts[stage], self.seed, stage)
        if self.lesson is not None:
            chosen = torch.randperm(len(self.lesson.energy), generator=generator(self.seed, "lost", stage))
            some = self.lesson.part(chosen[:_LOOKED_AT])
            self.lost = lost_share(some, log_prob_of(self.flow, some.x))
        caution = 1.0
        # Asked of one rank: a last bit must not part them.
        if of_first_rank(self._is_worse(stage, buffer)):
            self.restarts, caution = self.restarts + 1, 0.5
            self.flow.load_state_dict(self.start)
            # Samples of the spoilt flow are as good as any: only what drew them counts. The newest place is the flow's.
            self.buffers.insert(0, buffer)
        else:
            self.buffers.append(buffer)
        self.buffers = self.buffers[-self.config.reuse :]
        self.start = {name: value.clone() for name, value in self.flow.state_dict().items()}
        weighed, newest = weigh(self.buffers, self.flow), self.buffers[-1]
        self.waypoint = choose(self.config, stage, newest.energy, newest.log_prob, caution)
        if self.config.effective is not None:
            self.waypoint = furthest(weighed, self.waypoint, self.config.effective)
        self.waypoint = Waypoint(*of_first_rank(list(self.waypoint)))
        self.stage, self.lesson = stage, combine(weighed, self.waypoint, self.config.clip)
        self._order = torch.empty(0)

    def _is_worse(self, stage: int, buffer: Buffer) -> bool:
        """Whether the last stage did harm, and may be undone."""
        if not self.buffers or self.restarts >= self.config.restarts:
            return False
        failed = 1 - len(buffer.energy) / buffer.drawn
        if len(buffer.energy) < 2:
            return True
        before, now = (
            choose(self.config, stage, part.energy, part.log_prob) for part in (self.buffers[-1], buffer)
        )
        return made_worse(before.exponent, now.exponent, failed)

    def _split(self) -> tuple[Lesson, Lesson]:
        """Return what is learned from, and what is held out: of the newest buffer, the last ones drawn."""
        assert self.lesson is not None
        held = int(self.config.held_out * len(self.buffers[-1].energy))
        end = len(self.lesson.energy) - held
        return self.lesson.part(slice(0, end)), self.lesson.part(slice(end, None))


def _stored_buffer(tensors: dict[str, Tensor], prefix: str) -> Buffer:
    fields: dict[str, Any] = {name: tensors[prefix + name] for name in Buffer._fields}
    return Buffer(**(fields | {"drawn": int(fields["drawn"])}))


def _judge(flow: Flow, lesson: Lesson) -> tuple[float, float]:
    """Return the weighted NLL and the weighted mean absolute deviation of log q' − log q."""
    log_prob = log_prob_of(flow, lesson.x)
    inside = log_prob.isfinite()
    share = lesson.weights[inside] / lesson.weights[inside].sum()
    deviation = -lesson.energy[inside] - log_prob[inside]
    centre = (share * deviation).sum()
    nll = -float((share * log_prob[inside]).sum())
    return nll, float((share * (deviation - centre).abs()).sum())
