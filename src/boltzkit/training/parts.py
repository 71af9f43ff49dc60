"""The loss and gradient of a large batch, from parts of it that fit in memory.

A loss is a function of a few numbers per sample: log q, of model samples also the energy, for path gradients also
force · z. They are computed first, part by part and without gradient; then the loss of the whole batch, its centre
included, and its derivative in each of them; then, part by part, the gradient of the numbers times that derivative.
Nothing is approximated. It costs one more pass through the flow, and no more energy evaluations.
"""

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from boltzkit.errors import UserError
from boltzkit.flow import Flow
from boltzkit.flow.conditioner import NormalisedTanh
from boltzkit.objective import Batch, Loss, ModelBatch, Objective, PathGradientForwardKL
from boltzkit.ranks import share

__all__ = ["backward_in_parts", "can_be_divided", "ran_out_of_memory", "refuse_parts"]


def can_be_divided(flow: Flow) -> bool:
    """Tell whether a flow takes samples one by one; one that normalises over a batch does not."""
    return not any(isinstance(module, NormalisedTanh) for module in flow.modules())


def ran_out_of_memory(error: Exception) -> bool:
    """Tell whether that is what an error says: torch has a class for it on GPUs, but only a sentence on CPUs."""
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    return isinstance(error, RuntimeError) and "allocate memory" in str(error)


def refuse_parts(flow: Flow, parts: int) -> None:
    """Refuse to divide the batches of a flow that normalises over them."""
    if parts > 1 and not can_be_divided(flow):
        raise UserError(
            "Batches of a RealNVP with batch normalisation cannot be divided, since samples see each other: set "
            "training.accumulate=1, or flow.hidden to one layer."
        )


def backward_in_parts(
    flow: Flow,
    objective: Objective,
    batch: Batch | ModelBatch,
    parts: int,
    *,
    step: int,
    reference: Batch | None = None,
    centre: Tensor | None = None,
) -> Loss:
    """Return the loss of a batch, and add its gradient to the parameters' as if the batch had been whole.

    Args:
        flow: the flow, in training.
        objective: what to minimise.
        batch: data, or model samples yet to be drawn.
        parts: into how many to divide it.
        step: of the training.
        reference: a batch of its own for the dispersion.
        centre: a learned centre of the dispersion.
    """
    reference = None if objective.dispersion is None else reference
    if isinstance(batch, Batch) and batch.log_prob is not None:
        # Its passes through the flow are done: dividing what is left would save nothing.
        loss = objective(flow, batch, step=step, reference=reference, centre=centre)
        torch.autograd.backward(loss.total.sum())
        return loss
    known = _drawn(flow, batch, parts) if isinstance(batch, ModelBatch) else _known(flow, batch, parts)
    beside = None if reference is None else _known(flow, reference, parts)
    if isinstance(objective.data, PathGradientForwardKL):
        assert known.log_prob is not None
        # Of the path only the derivative counts, which does not depend on its value: the force is for later.
        known = known.replace(path=torch.zeros_like(known.log_prob))
    names = ("log_prob", "energy") if isinstance(batch, ModelBatch) else ("log_prob", "path")
    leaves = {name: leaf for name in names if (leaf := getattr(known, name)) is not None}
    of_reference = [] if beside is None or beside.log_prob is None else [beside.log_prob]
    for leaf in (*leaves.values(), *of_reference):
        leaf.requires_grad_()
    loss = objective.combined(known, step=step, reference=beside, centre=centre)
    torch.autograd.backward(loss.total.sum())
    slopes = {name: _slope(leaf) for name, leaf in leaves.items()}
    for rows in _rows(known.size, parts):
        if isinstance(batch, ModelBatch):
            _carry_back_drawn(flow, batch.part(rows), known.part(rows), slopes, rows)
        else:
            found = objective.per_sample(flow, batch.part(rows))
            _carry_back([(getattr(found, name), slope[..., rows]) for name, slope in slopes.items()])
    # Before its warm-up begins a dispersion asks nothing of its reference.
    if reference is not None and (slope := of_reference[0].grad) is not None:
        for rows in _rows(reference.size, parts):
            _carry_back([(flow.log_prob(reference.part(rows).x), slope[..., rows])])
    return loss


def _slope(leaf: Tensor) -> Tensor:
    """Return the derivative of the loss, zero where it does not depend on the leaf."""
    return torch.zeros_like(leaf) if leaf.grad is None else leaf.grad


def _rows(n: int, parts: int) -> Iterator[slice]:
    parts = min(n, parts)
    return (share(n, part, parts) for part in range(parts))


def _known(flow: Flow, batch: Batch, parts: int) -> Batch:
    """Return data with log q, without gradient."""
    return batch.replace(log_prob=_joined(lambda rows: flow.log_prob(batch.part(rows).x), batch.size, parts))


@torch.no_grad()
def _joined(compute: Callable[[slice], Tensor], n: int, parts: int) -> Tensor:
    return torch.cat([compute(rows) for rows in _rows(n, parts)], dim=-1)


def _drawn(flow: Flow, batch: ModelBatch, parts: int) -> Batch:
    """Return model samples with energies and their gradients, each evaluated once; without gradient in the flow."""
    found = []
    for rows in _rows(batch.size, parts):
        with torch.no_grad():
            x, log_prob = flow.from_latent(batch.part(rows).latent)
        energy, gradient = batch.target.energy_and_gradient(x)
        found.append(Batch(x, energy, gradient, log_prob=log_prob))
    axis = found[0].energy.ndim - 1
    x, energy = torch.cat([part.x for part in found], axis), torch.cat([part.energy for part in found], axis)
    log_prob = torch.cat([part.log_prob for part in found if part.log_prob is not None], axis)
    gradient = torch.cat([part.gradient for part in found if part.gradient is not None], axis)
    # As in a batch that is drawn whole: a failed sample has no say in the gradient, whatever its slope.
    failed = (~energy.isfinite()).reshape(*energy.shape, *[1] * (x.ndim - energy.ndim))
    return Batch(x, energy, gradient.masked_fill(failed, 0.0), log_prob=log_prob)


def _carry_back_drawn(
    flow: Flow, latents: ModelBatch, known: Batch, slopes: dict[str, Tensor], rows: slice
) -> None:
    """Carry derivatives in log q and in energies back through a part that is drawn once more."""
    assert known.gradient is not None
    x, log_prob = flow.from_latent(latents.latent)
    of_energy = slopes["energy"][..., rows].to(x)
    shape = (*of_energy.shape, *[1] * (x.ndim - of_energy.ndim))
    _carry_back([(log_prob, slopes["log_prob"][..., rows]), (x, of_energy.reshape(shape) * known.gradient)])


def _carry_back(pairs: list[tuple[Tensor, Tensor]]) -> None:
    """Add the gradients of values times given derivatives to the parameters'."""
    wanted = [(value, slope) for value, slope in pairs if value.requires_grad]
    torch.autograd.backward([value for value, _ in wanted], [slope for _, slope in wanted])
