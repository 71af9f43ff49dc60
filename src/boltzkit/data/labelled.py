"""Energy-labelled samples in memory."""

from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

from boltzkit.energy import Target
from boltzkit.errors import UserError
from boltzkit.objective import Batch

__all__ = ["LabelledData"]


@dataclass(frozen=True)
class LabelledData:
    """Samples with their reduced energies; a leading replica axis holds one dataset per replica.

    Args:
        x: configurations, ``(*replicas, n, *event)``.
        energy: reduced energies, ``(*replicas, n)``.
        gradient: ∂u/∂x, like x, where an objective needs it.
        rows: of a resampled set, which samples it has, with repeats; all once when None. Not with replicas.
    """

    x: Tensor
    energy: Tensor
    gradient: Tensor | None = None
    rows: Tensor | None = None

    @classmethod
    def label(cls, x: Tensor, target: Target, *, gradients: bool = False, source: str = "data") -> Self:
        """Evaluate the target on float64 samples, once each, and refuse what is not finite."""
        split = x.ndim - len(target.event_shape)
        _refuse_bad_rows(x, split, source, "coordinates")
        energy, gradient = target.energy_and_gradient(x) if gradients else (target(x), None)
        _refuse_bad_rows(energy, split, source, "energies")
        if gradient is not None:
            _refuse_bad_rows(gradient, split, source, "gradients")
        return cls(x, energy, gradient)

    @property
    def size(self) -> int:
        """Samples per replica, repeats included."""
        return self.energy.shape[-1] if self.rows is None else len(self.rows)

    def to(self, device: torch.device | str, dtype: torch.dtype) -> Self:
        """Move all labels to a device and precision."""
        gradient = None if self.gradient is None else self.gradient.to(device, dtype)
        rows = None if self.rows is None else self.rows.to(device)
        return type(self)(self.x.to(device, dtype), self.energy.to(device, dtype), gradient, rows)

    def batch(self, index: Tensor) -> Batch:
        """Pick samples, ``(*replicas, batch)`` indices into each replica's own dataset."""
        index = index if self.rows is None else self.rows[index]
        return Batch(
            _pick(self.x, index),
            _pick(self.energy, index),
            None if self.gradient is None else _pick(self.gradient, index),
        )


def _pick(values: Tensor, index: Tensor) -> Tensor:
    if index.ndim == 1:
        return values[index]
    replica = torch.arange(len(index), device=index.device).unsqueeze(-1)
    return values[replica, index]


def _refuse_bad_rows(values: Tensor, batch_axes: int, source: str, what: str) -> None:
    bad = ~torch.isfinite(values).reshape(*values.shape[:batch_axes], -1).all(-1)
    if bad.any():
        first = tuple(int(i) for i in bad.nonzero()[0])
        row = first[0] if len(first) == 1 else first
        raise UserError(
            f"{source}: {int(bad.sum())} of {bad.numel()} samples have {what} that are not finite, "
            f"the first in row {row}; remove them and try again."
        )
