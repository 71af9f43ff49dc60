"""Pictures of the Gaussian mixture: what each method learned in the plane."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from boltzkit.method import RunConfig, training_data
from boltzkit.method.system import build_energy
from boltzkit.report import DensityGrid, draw_density, draw_log_weight, draw_samples
from boltzkit.reproduce.experiment import Found, Picture
from boltzkit.storage import read_json

__all__ = ["densities"]


def densities(found: Sequence[Found]) -> Picture | None:
    """Draw learned densities and log weights of the smallest data set."""
    members = [one for one in found if one.row.group == found[0].row.group]
    figure = Figure(figsize=(2.5 * (len(members) + 1), 5.2), layout="constrained")
    axes = figure.subplots(2, len(members) + 1, squeeze=False)
    for column, one in enumerate(members, start=1):
        with np.load(one.arrays, allow_pickle=False) as stored:
            target = DensityGrid(stored["axis"], stored["log_target"])
            model = DensityGrid(stored["axis"], stored["log_prob"])
        draw_density(axes[0, 0], target, "target")
        draw_density(axes[0, column], model, one.row.label)
        ess = 100 * one.row.values["ess"][0]
        draw_log_weight(axes[1, column], target, model, f"log p − log q (ESS {ess:.1f} %)")
    _draw_training_samples(axes[1, 0], found[0].arrays.with_suffix(".json"), float(target.axis[-1]))
    return Picture(
        "density.png",
        figure,
        "Above: learned log-densities (first seed, smallest data set). Below: log importance weight log p − log q "
        "where the target has mass; white is perfect, red is where the model has too little.",
    )


def _draw_training_samples(ax: Axes, cell: Path, half_width: float) -> None:
    """Draw what the first seed of a cell was trained on; its draw follows from the settings."""
    question = read_json(cell)["question"]
    config = RunConfig.parse(question["config"] | {"seed": question["seeds"][0]}, source=str(cell))
    data = training_data(config, build_energy(config.target))
    draw_samples(ax, data.x.numpy(), half_width, f"{data.size} training samples")
