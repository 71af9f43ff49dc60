"""What data of the same molecule say for or against an ensemble."""

from collections.abc import Iterator

import numpy as np
import torch
from numpy.typing import NDArray

from boltzkit.analysis.agreement import Agreement, agreement
from boltzkit.data import Dataset
from boltzkit.ensemble import Ensemble, Finding, trajectory_blocks

__all__ = ["compare_with", "data_findings", "spread_frames"]

_MOST = 20_000
"""Frames that an ensemble is compared with."""


def spread_frames(split: Dataset, most: int = _MOST) -> NDArray[np.int64]:
    """Return frames of a dataset from its beginning to its end, at equal distances."""
    chosen = torch.linspace(0, len(split) - 1, min(most, len(split)), dtype=torch.float64)
    return chosen.round().long().numpy()


def compare_with(ensemble: Ensemble, split: Dataset) -> Agreement:
    """Compare an ensemble with unbiased data of the same molecule and temperature; it costs no energy evaluations."""
    index = spread_frames(split)
    block = trajectory_blocks(split.column("trajectory", index), split.column("frame", index))
    return agreement(ensemble, torch.from_numpy(split.positions(index)), block=block)


def data_findings(found: Agreement, data: str = "data that were kept aside") -> Iterator[Finding]:
    """Say what a comparison means.

    Args:
        found: the comparison.
        data: how the sentences call what was compared with.
    """
    for basin in found.missing:
        yield (
            "do not trust",
            f"The flow lacks a basin of the data: {basin.name} has {100 * basin.data.value:.2g} % of the data and "
            f"{100 * basin.ensemble.value:.2g} % of the ensemble.",
        )
    if found.good:
        yield (
            "trust",
            f"{len(found.compared)} means and {len(found.basins)} basins agree with {found.n_data:,} samples of "
            f"{data}; the largest deviation is {found.largest:.1f} standard errors.",
        )
    elif not found.missing:
        worst = max(found.compared, key=lambda compared: abs(compared.deviation))
        yield (
            "with care",
            f"The mean of {worst.name} is {worst.ensemble.value:.4g} in the ensemble and {worst.data.value:.4g} in "
            f"{data}: {abs(worst.deviation):.1f} standard errors apart.",
        )
