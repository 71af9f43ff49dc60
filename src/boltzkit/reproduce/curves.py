"""What a training leaves to be drawn: validation curves, its path, the variance of its gradient norm, seed by seed."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from boltzkit.training import RunFolder, sliding_variance

__all__ = ["training_curves", "training_seconds"]

_VALIDATION = ("validation_nll", "validation_dispersion", "validation_forward_ess")
_PATH = ("evaluations", "exponent", "temperature", "ess", "memory_nll")
"""Where a training through intermediate targets is."""
_WINDOW = 0.04
"""Share of the run over which the variance is taken: 10,000 of 250,000 steps in the paper."""
_POINTS = 200
"""At most so many points of the variance are kept."""

_Line = Mapping[str, Any]


def training_curves(folder: Path, seeds: int, steps: int) -> dict[str, Any]:
    """Return validation metrics by step, one column per seed, and the sliding variance of each seed's gradient norm.

    Args:
        folder: of runs trained as one batched model, or with one run folder per seed in it, named 0, 1, ….
        seeds: how many.
        steps: of the whole run.
    """
    runs = [_lines(folder, seed) for seed in range(seeds)]
    validated = [[line for line in run if "validation_nll" in line] for run in runs]
    content: dict[str, Any] = {"step": [line["step"] for line in validated[0]]}
    for name in (*_VALIDATION, *_PATH):
        if validated[0] and name in validated[0][0]:
            content[name] = [[_rounded(line[name]) for line in row] for row in zip(*validated, strict=True)]
    window = max(2, round(_WINDOW * steps))
    content["gradient_norm"] = {
        "window": window,
        "variance": [_thinned(sliding_variance(run, window)) for run in runs],
    }
    return content


def training_seconds(folder: Path, seeds: int) -> list[float]:
    """Return about how long each seed trained, over all resumes; replicas of one batched model share theirs."""
    return [round(_seconds(_lines(folder, seed)), 1) for seed in range(seeds)]


def _lines(folder: Path, seed: int) -> list[_Line]:
    """Return one seed's lines of metrics."""
    own = folder / f"{seed}"
    if own.is_dir():
        return list(RunFolder(own).metrics())
    return [
        {name: value[seed] if isinstance(value, list) else value for name, value in line.items()}
        for line in RunFolder(folder).metrics()
    ]


def _seconds(lines: Sequence[_Line]) -> float:
    """Return the sum over resumes: each starts its clock anew."""
    total = last = 0.0
    for line in lines:
        if line["seconds"] < last:
            total += last
        last = line["seconds"]
    return total + last


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 5)


def _thinned(points: list[tuple[int, float]]) -> list[list[float]]:
    stride = max(1, -(-len(points) // _POINTS))
    return [[step, float(f"{value:.5g}")] for step, value in points[::stride]]
