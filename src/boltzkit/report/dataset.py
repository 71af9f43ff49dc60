"""What a dataset of a peptide covers: its Ramachandran plots."""

import math

import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Tensor

from boltzkit.data import Dataset
from boltzkit.molecule import Backbone
from boltzkit.randomness import generator
from boltzkit.report.evaluation import biased_figure, sample_size_figure

__all__ = ["dataset_figure"]

_SIZES = (10_000, 250_000)
"""Samples of the smaller plots, as in the paper."""
_CHUNK = 100_000


def dataset_figure(dataset: Dataset, backbone: Backbone) -> Figure | None:
    """Return plots of the first residue's φ and ψ: of more and more samples, or, of a biased set, with its starts.

    None for what is no peptide, or empty.
    """
    if not backbone.names or not len(dataset):
        return None
    angles = _angles(dataset, backbone)
    if dataset.about.bias is not None:
        first = torch.as_tensor([int(trajectory.index[0]) for trajectory in dataset.trajectories()])
        return biased_figure(angles, angles[first])
    order = torch.randperm(len(angles), generator=generator(0, "order of a plot"))
    # Two significant digits: the title is a size to read, not a count.
    digits = 10 ** max(0, math.floor(math.log10(len(angles))) - 1)
    largest = len(angles) // digits * digits
    return sample_size_figure(angles[order], [*(size for size in _SIZES if size < largest), largest])


def _angles(dataset: Dataset, backbone: Backbone) -> Tensor:
    """Return φ and ψ of the first residue, ``(n, 2)``, without holding the positions of more than a chunk."""
    parts = []
    for start in range(0, len(dataset), _CHUNK):
        rows = np.arange(start, min(start + _CHUNK, len(dataset)))
        positions = torch.from_numpy(dataset.positions(rows))
        parts.append(backbone.angles(positions)[:, 0])
    return torch.cat(parts)
