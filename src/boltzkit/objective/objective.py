"""The weighted sum a training step descends: a data term, a log-dispersion term, and its warm-up."""

import math
from dataclasses import dataclass, replace
from typing import assert_never

import torch
from torch import Tensor

from boltzkit.errors import UserError
from boltzkit.flow import Flow
from boltzkit.objective.batch import Batch
from boltzkit.objective.forward_kl import ForwardKL
from boltzkit.objective.log_dispersion import LogDispersion
from boltzkit.objective.mean import Total, global_order, global_total
from boltzkit.objective.path_gradient import PathGradientForwardKL
from boltzkit.objective.reverse_kl import ReverseKL

__all__ = ["DataTerm", "Loss", "Objective", "warm_up"]

DataTerm = ForwardKL | PathGradientForwardKL | ReverseKL
"""All data terms. What they learn from, each says itself: samples of the flow (`own_samples`) or data, and whether with
the gradients of their energies (`energy_gradients`)."""


@dataclass(frozen=True)
class Loss:
    """What one evaluation of an objective gives: the total and what a person watches, each ``(*replicas,)``."""

    total: Tensor
    data: Tensor | None
    dispersion: Tensor | None
    left_out: Tensor
    """Samples outside the support or with an energy that is not finite."""
    mean: Tensor | None = None
    """Mean of f on the dispersion's batch, where a learned centre takes it from there."""


def warm_up(step: int, steps: int) -> float:
    """Return the cosine ramp ½(1 − cos(π t/T)) that switches the dispersion on, 1 from step T.

    >>> warm_up(0, 10), warm_up(5, 10), warm_up(10, 10)
    (0.0, 0.5, 1.0)
    """
    if step >= steps:
        return 1.0
    return round(0.5 * (1 - math.cos(math.pi * step / steps)), 15)


@dataclass(frozen=True)
class Objective:
    r"""$\mathcal L = \lambda_{data} \mathcal L_{data} + \lambda_{LD}(t) \mathcal L_{LD}$.

    The dispersion is taken on a reference batch when one is given (biased data), else on the data batch, whose log q
    it shares, so that the regulariser costs next to nothing. A share of less than 1 mixes both: the mixture has one
    centre, because the offset of log q between regions is what the reference is there to teach.

    Args:
        data: forward KL, path-gradient forward KL or reverse KL; None for dispersion alone.
        dispersion: the regulariser, or None.
        data_weight: λ_data, a number or one per replica.
        dispersion_weight: λ_LD after its warm-up.
        warm_up_steps: T_warm.
        reference_share: share of the reference batch in the dispersion; the rest is the data batch's.
    """

    data: DataTerm | None
    dispersion: LogDispersion | None = None
    data_weight: float | Tensor = 1.0
    dispersion_weight: float | Tensor = 1.0
    warm_up_steps: int = 0
    reference_share: float = 1.0

    def __post_init__(self) -> None:
        if self.data is None and self.dispersion is None:
            raise UserError("An objective needs a data term or a dispersion; both are none.")

    def __call__(
        self,
        flow: Flow,
        batch: Batch,
        *,
        step: int,
        reference: Batch | None = None,
        centre: Tensor | None = None,
    ) -> Loss:
        """Evaluate on a batch of data (or of model samples, for the reverse KL)."""
        reference = None if self.dispersion is None else reference
        return self.combined(
            self.per_sample(flow, batch),
            step=step,
            reference=None if reference is None else reference.with_log_prob(flow),
            centre=centre,
        )

    def over_ranks(self) -> "Objective":
        """Return the objective of a batch of which every rank has its share: all means are those of the whole."""
        data: DataTerm | None
        if isinstance(self.data, ReverseKL):
            data = replace(self.data, total=global_total, order=global_order)
        else:
            data = None if self.data is None else replace(self.data, total=global_total)
        dispersion = None if self.dispersion is None else replace(self.dispersion, total=global_total)
        return replace(self, data=data, dispersion=dispersion)

    def per_sample(self, flow: Flow, batch: Batch) -> Batch:
        """Return the batch with all that the loss takes from the flow: one number or two for each sample."""
        if not isinstance(self.data, PathGradientForwardKL):
            return batch.with_log_prob(flow)
        if batch.gradient is None:
            raise UserError("The path-gradient forward KL needs energy gradients with the data.")
        path, log_prob = self.data.per_sample(flow, batch.x, batch.gradient)
        return batch.replace(log_prob=log_prob, path=path)

    def combined(
        self, batch: Batch, *, step: int, reference: Batch | None = None, centre: Tensor | None = None
    ) -> Loss:
        """Return the loss from what `per_sample` gives of the batch, and from the reference's log q."""
        data = self._data_loss(batch)
        total = _zero(batch) if data is None else self.data_weight * data
        sum_up = self._total()
        left_out = _left_out(batch, sum_up)
        dispersion = mean = None
        if self.dispersion is not None:
            where = batch
            if reference is not None:
                where = reference
                left_out = left_out + _left_out(where, sum_up)
                if self.reference_share < 1:
                    where = _mixture(batch, where, self.reference_share, sum_up)
            assert where.log_prob is not None
            about = where.log_prob, where.energy, where.weights
            if centre is not None and step <= self.warm_up_steps:
                # An untrained flow is millions of nats off, and the mean falls faster than a parameter could.
                centre = self.dispersion.mean(*about)
                mean = centre.detach()
            dispersion = self.dispersion(*about, centre)
            ramp = warm_up(step, self.warm_up_steps)
            # At weight zero the term is left out, not multiplied: 0 · inf would be NaN.
            total = total + (ramp * self.dispersion_weight) * dispersion if ramp > 0 else total
        return Loss(total, data, dispersion, left_out, mean)

    def _data_loss(self, batch: Batch) -> Tensor | None:
        assert batch.log_prob is not None
        if self.data is None:
            return None
        if isinstance(self.data, PathGradientForwardKL):
            assert batch.path is not None
            return self.data.combined(batch.path, batch.log_prob, batch.weights)
        if isinstance(self.data, ReverseKL):
            return self.data(batch.log_prob, batch.energy)
        if isinstance(self.data, ForwardKL):
            return self.data(batch.log_prob, batch.weights)
        assert_never(self.data)

    def _total(self) -> Total:
        term = self.dispersion if self.data is None else self.data
        assert term is not None
        return term.total


def _mixture(data: Batch, reference: Batch, share: float, sum_up: Total) -> Batch:
    """Return both batches as one, with weights that give the reference its share whatever the sizes."""
    assert data.log_prob is not None
    assert reference.log_prob is not None
    parts = [_scaled_weights(data, 1 - share, sum_up), _scaled_weights(reference, share, sum_up)]
    return Batch(
        reference.x,
        torch.cat([data.energy, reference.energy], -1),
        weights=torch.cat(parts, -1),
        log_prob=torch.cat([data.log_prob, reference.log_prob], -1),
    )


def _scaled_weights(batch: Batch, total: float, sum_up: Total) -> Tensor:
    """Return weights whose sum over the samples that take part is the total."""
    assert batch.log_prob is not None
    weights = torch.ones_like(batch.energy) if batch.weights is None else batch.weights
    kept = torch.isfinite(batch.energy) & (batch.log_prob.detach() != -torch.inf)
    return total * weights / sum_up(torch.where(kept, weights, 0.0)).unsqueeze(-1).clamp(min=1e-30)


def _zero(batch: Batch) -> Tensor:
    """Return a zero that hangs on the parameters, so that dispersion alone can start its warm-up at 0."""
    assert batch.log_prob is not None
    return 0.0 * torch.where(torch.isfinite(batch.log_prob), batch.log_prob, 0.0).sum(-1)


def _left_out(batch: Batch, sum_up: Total) -> Tensor:
    assert batch.log_prob is not None
    outside = batch.log_prob == -torch.inf
    return sum_up((outside | ~torch.isfinite(batch.energy)).long())
