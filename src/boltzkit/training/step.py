"""One gradient step: (state, batch) -> (state, info)."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from boltzkit.errors import UserError
from boltzkit.objective import Batch, Loss, ModelBatch, Objective
from boltzkit.ranks import average_gradients, rank_count, share
from boltzkit.training.config import TrainingConfig
from boltzkit.training.gradient_norm import add_norm
from boltzkit.training.optimiser import learning_rate
from boltzkit.training.parts import backward_in_parts, can_be_divided, ran_out_of_memory
from boltzkit.training.state import TrainState

__all__ = ["StepInfo", "train_step"]


@dataclass(frozen=True)
class StepInfo:
    """What a step reports: its loss, the gradient norm before clipping, and which replicas failed."""

    loss: Loss
    gradient_norm: Tensor
    failed: Tensor


def train_step(
    state: TrainState,
    objective: Objective,
    config: TrainingConfig,
    batch: Batch | ModelBatch,
    reference: Batch | None = None,
) -> tuple[TrainState, StepInfo]:
    """Take one step. A replica whose loss or gradient is not finite learns nothing from it and is counted.

    Where several ranks train, all are given the whole batch and each takes its share; loss, gradient and what follows
    from them are those of the whole, the same on every rank.

    Args:
        state: of the training.
        objective: what to minimise.
        config: how to descend.
        batch: data, or model samples yet to be drawn.
        reference: a batch of its own for the dispersion.
    """
    state.flow.train()
    statistics = [value.clone() for value in _statistics(state)]
    state.optimiser.zero_grad(set_to_none=True)
    loss = _backward_in_memory(state, objective, config, batch, reference, statistics)
    flow, parameters = state.flow, list(state.modules.parameters())
    average_gradients(parameters)
    norm = _gradient_norm(parameters, len(flow.replicas))
    failed = ~(torch.isfinite(norm) & torch.isfinite(loss.total.detach())).cpu()
    _scale_gradients(parameters, norm, failed, config.clip)
    _put_back(_statistics(state), statistics, failed)
    if not failed.all():
        learned = [value.clone() for value in _learned(state)] if failed.any() else []
        for group in state.optimiser.param_groups:
            group["lr"] = learning_rate(config, state.step)
        state.optimiser.step()
        if loss.mean is not None:
            state.begin_centre(loss.mean)
        _update_average(state, config)
        _put_back(_learned(state), learned, failed)
    state.failed = state.failed + failed
    state.failed_in_a_row = torch.where(failed, state.failed_in_a_row + 1, 0)
    state.left_out = state.left_out + loss.left_out.cpu()
    state.norms = add_norm(state.norms, norm)
    state.step += 1
    return state, StepInfo(loss, norm, failed)


def _backward_in_memory(
    state: TrainState,
    objective: Objective,
    config: TrainingConfig,
    batch: Batch | ModelBatch,
    reference: Batch | None,
    statistics: list[Tensor],
) -> Loss:
    """Do as `_backward`; where memory runs out, from then on with the batch in twice as many parts."""
    state.parts = max(state.parts, config.accumulate)
    while True:
        try:
            return _backward(state, objective, batch, reference)
        except (MemoryError, RuntimeError) as error:
            if not ran_out_of_memory(error):
                raise
            _refuse_to_divide(state, batch.size, error)
        # Outside the handler, whose error keeps the tensors of the attempt alive.
        state.parts *= 2
        state.optimiser.zero_grad(set_to_none=True)
        _put_back(_statistics(state), statistics, torch.ones_like(state.failed, dtype=torch.bool))
        if torch.cuda.is_available():
            torch.cuda.empty_cache()


def _refuse_to_divide(state: TrainState, size: int, error: Exception) -> None:
    if rank_count() > 1:  # the others are in the middle of the same batch, and cannot know
        advice = "set training.accumulate to twice what it is, or start more ranks"
    elif state.parts >= size:
        advice = "even one sample is too much for it; take a smaller flow"
    elif not can_be_divided(state.flow):
        advice = "lower training.batch"
    else:
        return
    raise UserError(f"Memory ran out in step {state.step + 1}, with a batch of {size}: {advice}.") from error


def _backward(
    state: TrainState, objective: Objective, batch: Batch | ModelBatch, reference: Batch | None
) -> Loss:
    """Return the loss of the whole batch, and give the parameters the gradient from this rank's share."""
    flow, step, centre = state.flow, state.step, state.centre
    if rank_count() > 1:
        objective = objective.over_ranks()
        batch = batch.part(_own(batch.size, "training.batch"))
        reference = None if reference is None else reference.part(_own(reference.size, "reference.batch"))
    if (parts := state.parts) > 1:
        return backward_in_parts(flow, objective, batch, parts, step=step, reference=reference, centre=centre)
    whole = batch.drawn(flow) if isinstance(batch, ModelBatch) else batch
    loss = objective(flow, whole, step=step, reference=reference, centre=centre)
    torch.autograd.backward(loss.total.sum())
    return loss


def _own(n: int, setting: str) -> slice:
    if n < rank_count():
        raise UserError(
            f"A batch of {n} cannot be shared by {rank_count()} ranks: raise {setting}, or start fewer."
        )
    return share(n)


def _gradient_norm(parameters: list[nn.Parameter], replica_axes: int) -> Tensor:
    """Return the norm of the whole gradient, ``(*replicas,)``."""
    gradients = [p.grad for p in parameters if p.grad is not None]
    squares = [g.square().reshape(*g.shape[:replica_axes], -1).sum(-1) for g in gradients]
    return torch.stack(squares).sum(0).sqrt()


def _scale_gradients(
    parameters: list[nn.Parameter], norm: Tensor, failed: Tensor, clip: float | None
) -> None:
    """Clip each replica's gradient by its own norm and take failed replicas out."""
    if clip is None and not failed.any():
        return
    scale = torch.ones_like(norm) if clip is None else (clip / (norm + 1e-12)).clamp(max=1.0)
    bad = failed.to(norm.device)
    for parameter in parameters:
        if parameter.grad is not None:
            shape = (*norm.shape, *[1] * (parameter.grad.ndim - norm.ndim))
            # A mask and not a product with zero: 0 · NaN is NaN.
            parameter.grad.mul_(scale.view(shape)).masked_fill_(bad.view(shape), 0.0)


def _statistics(state: TrainState) -> list[Tensor]:
    """Return what the forward pass changes: running statistics, which a NaN would spoil for good."""
    return [buffer for buffer in state.flow.buffers() if buffer.is_floating_point()]


def _learned(state: TrainState) -> list[Tensor]:
    """Return what the optimiser changes; moments last, as they are not there before its first step."""
    moments = [m for kept in state.optimiser.state.values() for k, m in kept.items() if k != "step"]
    return [*state.modules.parameters(), *state.ema.values(), *moments]


@torch.no_grad()
def _put_back(values: list[Tensor], before: list[Tensor], failed: Tensor) -> None:
    """Undo a step for the replicas that failed: momentum, too, would move them."""
    if failed.any():
        for value, old in zip(values, before, strict=False):
            mask = failed.to(value.device).view(*failed.shape, *[1] * (value.ndim - failed.ndim))
            value.copy_(torch.where(mask, old, value))


def _update_average(state: TrainState, config: TrainingConfig) -> None:
    if config.ema is None:
        return
    for name, value in state.flow.state_dict().items():
        if value.is_floating_point():
            state.ema[name].lerp_(value.detach(), 1 - config.ema)
        else:
            state.ema[name].copy_(value)
