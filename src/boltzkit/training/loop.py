"""The loop: steps, metrics, validation, checkpoints, clean stops."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from boltzkit.energy import Target
from boltzkit.errors import Interrupted, TrainingFailed
from boltzkit.flow import Flow
from boltzkit.interrupt import stop_requested
from boltzkit.objective import Batch, ModelBatch, Objective, counted
from boltzkit.ranks import (
    add_over_ranks,
    by_first_rank,
    copy_first_rank,
    is_first_rank,
    of_first_rank,
    rank_count,
    tensors_of_first_rank,
)
from boltzkit.training.arithmetic import arithmetic
from boltzkit.training.centre import LearnedCentre
from boltzkit.training.checkpoint import load_checkpoint, save_checkpoint
from boltzkit.training.config import TrainingConfig
from boltzkit.training.gradient_norm import no_norms, summarise_norms
from boltzkit.training.memory import Memory
from boltzkit.training.optimiser import learning_rate
from boltzkit.training.parts import refuse_parts
from boltzkit.training.run_folder import RunFolder
from boltzkit.training.state import TrainState
from boltzkit.training.step import StepInfo, train_step

__all__ = ["Problem", "Watch", "train"]

Watch = Callable[[dict[str, Any], int], None]
"""Called with each metrics line and the total number of steps, for a progress display."""


@dataclass(frozen=True)
class Problem:
    """What to train on what.

    Args:
        flow: the model at its start.
        objective: what to minimise.
        target: the energy; its evaluation counter is part of the state.
        batch: step -> data (or model samples) of all ranks; with a state of its own if it is a `Memory`.
        reference: step -> a batch of its own for the dispersion, or None to share the data's.
        centre: a learned centre, or None for the batch mean.
        validate: flow -> numbers to log, called in evaluation mode without gradients.
    """

    flow: Flow
    objective: Objective
    target: Target
    batch: Callable[[int], Batch | ModelBatch]
    reference: Callable[[int], Batch] | None = None
    centre: LearnedCentre | None = None
    validate: Callable[[Flow], dict[str, Tensor]] | None = None


@dataclass
class _Clock:
    """Time spent on this side of a resume."""

    start: float = field(default_factory=time.monotonic)

    def seconds(self) -> float:
        return round(time.monotonic() - self.start, 2)


def train(
    problem: Problem, config: TrainingConfig, folder: RunFolder | None = None, watch: Watch | None = None
) -> TrainState:
    """Train to the end, or go on from the folder's last checkpoint. Returns the final state.

    Several ranks (`boltzkit.ranks.join_ranks`) train as one: each does its share, the first reads and writes the
    folder and calls `watch`, all of them stop at the same step.

    Raises:
        Interrupted: a signal asked to stop; the state was saved.
        TrainingFailed: every replica failed too many steps in a row.
    """
    refuse_parts(problem.flow, config.accumulate)
    memory = problem.batch if isinstance(problem.batch, Memory) else None
    state = TrainState.start(problem.flow, config, problem.centre, memory)
    if _resume(state, folder):
        problem.target.evaluations = state.evaluations
    clock = _Clock()
    with stop_requested() as stopping, arithmetic(problem.flow, config):
        while state.step < config.steps:
            with counted(problem.target):
                reference = None if problem.reference is None else problem.reference(state.step)
                batch = problem.batch(state.step)
                state, info = train_step(state, problem.objective, config, batch, reference)
            state.evaluations = problem.target.evaluations
            _report(state, info, problem, config, clock, folder, watch)
            _give_up_if_hopeless(state, info, config)
            due = state.step % config.checkpoint_every == 0 or state.step == config.steps
            # Asked once: a signal between saving and stopping must not stop what was not saved.
            stop = add_over_ranks(int(stopping())) > 0
            if folder is not None and (due or stop):
                _save(state, folder)
            if stop and state.step < config.steps:
                raise Interrupted(_farewell(state, config, folder))
    return state


def _resume(state: TrainState, folder: RunFolder | None) -> bool:
    """Go on from the newest checkpoint where there is one: the first rank reads it and tells the others."""
    if rank_count() == 1:
        return folder is not None and load_checkpoint(folder.checkpoints, state)
    found = by_first_rank(lambda: folder is not None and load_checkpoint(folder.checkpoints, state))
    step, evaluations = of_first_rank([state.step, state.evaluations])
    # Also at the very start: ranks on different machines may differ in a last bit from then on.
    tensors = tensors_of_first_rank(state.tensors())
    if not is_first_rank():
        state.load(tensors, step, evaluations)
    return found


def _save(state: TrainState, folder: RunFolder) -> None:
    """Write a checkpoint; all ranks go on from what it holds, as they would from the file."""
    if is_first_rank():
        save_checkpoint(folder.checkpoints, state)
    copy_first_rank(state.learned())


def _report(
    state: TrainState,
    info: StepInfo,
    problem: Problem,
    config: TrainingConfig,
    clock: _Clock,
    folder: RunFolder | None,
    watch: Watch | None,
) -> None:
    last = state.step == config.steps
    validate = state.step % config.validate_every == 0 or last
    if not (state.step % config.log_every == 0 or last or validate or bool(info.failed.any())):
        return
    values: dict[str, Tensor | None] = {
        "loss": info.loss.total,
        "data": info.loss.data,
        "dispersion": info.loss.dispersion,
        "gradient_norm": info.gradient_norm,
        "failed_steps": state.failed,
        "left_out": state.left_out,
    }
    values |= summarise_norms(state.norms)
    state.norms = no_norms(state.flow.replicas)
    if validate:
        values |= _judge(problem)
    line: dict[str, Any] = {"step": state.step}
    line |= {k: v.detach().tolist() for k, v in values.items() if v is not None}
    line |= {"learning_rate": learning_rate(config, state.step - 1), "evaluations": state.evaluations}
    if state.parts > config.accumulate:
        line["parts"] = state.parts  # memory ran out
    line |= {"seconds": clock.seconds()}
    if folder is not None and is_first_rank():
        folder.log(line)
    if watch is not None and is_first_rank():
        watch(line, config.steps)


def _judge(problem: Problem) -> dict[str, Tensor]:
    """Return the numbers of validation, and those of the batches' memory."""
    with problem.flow.evaluating(), torch.no_grad():
        found = {} if problem.validate is None else problem.validate(problem.flow)
        return found | (problem.batch.figures(problem.flow) if isinstance(problem.batch, Memory) else {})


def _give_up_if_hopeless(state: TrainState, info: StepInfo, config: TrainingConfig) -> None:
    if not bool((state.failed_in_a_row >= config.max_failed_steps).all()):
        return
    terms = {"loss": info.loss.total, "data term": info.loss.data, "dispersion": info.loss.dispersion}
    shown = ", ".join(f"{k} {v.detach().tolist()}" for k, v in terms.items() if v is not None)
    first = state.step - config.max_failed_steps + 1
    raise TrainingFailed(
        f"Training failed: since step {first} no step gave a finite gradient ({shown}, gradient norm "
        f"{info.gradient_norm.tolist()}); lower training.learning_rate or set training.clip, and check the data."
    )


def _farewell(state: TrainState, config: TrainingConfig, folder: RunFolder | None) -> str:
    where = "" if folder is None else f" and saved in {folder.path}; the same command goes on from there"
    return f"Stopped at step {state.step} of {config.steps}{where}."
