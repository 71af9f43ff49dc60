"""How long a step takes on this machine, from a few of them."""

import statistics
import time

import torch

from boltzkit.method.config import RunConfig
from boltzkit.method.fit import build_problem
from boltzkit.method.refinement import proposal_run
from boltzkit.training import TrainState, arithmetic, train_step

__all__ = ["seconds_per_step"]

_WARM, _TIMED = 2, 5


def seconds_per_step(config: RunConfig, threads: int | None = None) -> float:
    """Return the time of one training step, by as many threads as torch has, or as are given.

    One thread is timed by what it computes, which does not depend on how busy the machine is right now.
    """
    if config.importance is not None:
        config = proposal_run(config)
    few = {"samples": config.training.batch, "validation_samples": 1}
    config = config.model_copy(update={"data": config.data.model_copy(update=few)})
    clock = time.process_time if threads == 1 and config.device == "cpu" else time.perf_counter
    before = torch.get_num_threads()
    torch.set_num_threads(threads or before)
    try:
        problem = build_problem((config,), batched=False)
        state = TrainState.start(problem.flow, config.training, problem.centre)
        times = []
        with arithmetic(problem.flow, config.training):
            for step in range(_WARM + _TIMED):
                start = clock()
                state, _ = train_step(state, problem.objective, config.training, problem.batch(step))
                times.append(clock() - start)
        return statistics.median(times[_WARM:])
    finally:
        torch.set_num_threads(before)
