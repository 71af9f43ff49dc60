"""How long an experiment will take, told before it starts."""

from collections.abc import Sequence

from boltzkit.flow import RealNVPConfig
from boltzkit.method import RunConfig, seconds_per_step
from boltzkit.reproduce.cell import Cell

__all__ = ["estimate", "makespan"]

_DRAWING = 0.5
"""What a batch costs to draw, weigh and judge, in training steps."""


def estimate(cells: Sequence[Cell], workers: int) -> str | None:
    """Say how long cells will take from the time of a few steps; None where there is nothing worth a word.

    Batched flows are left out: all their seeds share a step.
    """
    if not cells or any(isinstance(cell.config.flow, RealNVPConfig) for cell in cells):
        return None
    pace = {key: seconds_per_step(config, threads=1) for key, config in _kinds(cells).items()}
    loads = [pace[_kind(cell.config)] * _steps(cell) for cell in cells]
    hours = makespan(loads, workers) / 3600
    steps = sum(cell.steps() for cell in cells)
    shown = ", ".join(f"{1000 * seconds:.0f} ms" for seconds in pace.values())
    return (
        f"About {hours:.2g} h: {len(cells)} cells with {steps:,} steps of {shown} and their evaluation, on {workers} "
        "workers of one thread, if the machine is free. What was saved before makes it shorter."
    )


def makespan(loads: Sequence[float], workers: int) -> float:
    """Return when the last worker is done, each taking the next load in turn.

    >>> makespan([3.0, 2.0, 2.0], 2)
    4.0
    """
    ends = [0.0] * workers
    for load in loads:
        ends[ends.index(min(ends))] += load
    return max(ends)


def _kind(config: RunConfig) -> str:
    parts = (config.target.model_dump_json(), config.flow.model_dump_json(), config.training.batch)
    return f"{parts} {config.objective.data}"


def _kinds(cells: Sequence[Cell]) -> dict[str, RunConfig]:
    return {_kind(cell.config): cell.config for cell in cells}


def _steps(cell: Cell) -> float:
    """Return the cell's work in training steps."""
    judged = cell.config.evaluation.samples + cell.config.evaluation.test_samples
    return cell.steps() + _DRAWING * len(cell.seeds) * judged / cell.config.training.batch
