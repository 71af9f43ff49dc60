"""Muon (Jordan et al., 2024): matrices inside networks move by the nearest orthogonal matrix to their momentum.

All singular directions of a hidden weight then learn at one rate, where Adam follows the few large ones first.
Everything else, biases and the layers that end a network among it, is left to Adam.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence

import torch
from torch import Tensor, nn

__all__ = ["Muon", "orthogonal"]

_MOMENTUM = 0.95
_SPREAD = 0.2
"""Root mean square of the entries of a step at a rate of one: what Adam's steps have, so that both share one rate."""
_QUINTIC = (3.4445, -4.7750, 2.0315)
"""Coefficients of an odd polynomial that lifts small singular values fast and keeps large ones between 0.7 and 1.2."""
_ROUNDS = 5


class Muon(torch.optim.Optimizer):
    """Muon for given matrices and Adam for the other parameters, as one optimiser.

    Args:
        parameters: all parameters, in the order of the checkpoint.
        matrices: those of them that move by orthogonal steps, ``(..., out, in)``.
        rate: learning rate of both.
        betas: Adam's decay rates.
        weight_decay: added to the gradient in Adam, decoupled from it in Muon.
    """

    def __init__(
        self,
        parameters: Iterable[nn.Parameter],
        matrices: Sequence[nn.Parameter],
        rate: float,
        betas: tuple[float, float],
        weight_decay: float,
    ) -> None:
        everything = list(parameters)
        super().__init__(everything, {"lr": rate, "weight_decay": weight_decay, "fused": True})
        inside = {id(matrix) for matrix in matrices}
        self._matrices = [p for p in everything if id(p) in inside]
        rest = [p for p in everything if id(p) not in inside]
        self._adam = torch.optim.Adam(rest, lr=rate, betas=betas, weight_decay=weight_decay, fused=True)

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """Move all parameters that have a gradient."""
        (group,) = self.param_groups
        # Adam keeps its moments here, where checkpoints look for them; loading one replaces the dictionary.
        self._adam.state = self.state
        self._adam.param_groups[0]["lr"] = group["lr"]
        self._adam.step()
        for alike in self._by_shape():
            steps = orthogonal(torch.stack([self._momentum(matrix) for matrix in alike]))
            size = _SPREAD * math.sqrt(max(steps.shape[-2:]))
            for matrix, step in zip(alike, steps, strict=True):
                matrix.mul_(1 - group["lr"] * group["weight_decay"]).sub_(step, alpha=group["lr"] * size)

    def _by_shape(self) -> list[list[nn.Parameter]]:
        found = defaultdict(list)
        for matrix in self._matrices:
            if matrix.grad is not None:
                found[matrix.shape].append(matrix)
        return list(found.values())

    def _momentum(self, matrix: nn.Parameter) -> Tensor:
        """Update a matrix's momentum and return what Nesterov's rule makes of it."""
        assert matrix.grad is not None
        kept = self.state[matrix]
        if not kept:
            kept["momentum"] = torch.zeros_like(matrix)
        momentum: Tensor = kept["momentum"].lerp_(matrix.grad, 1 - _MOMENTUM)
        return matrix.grad.lerp(momentum, _MOMENTUM)


def orthogonal(matrices: Tensor) -> Tensor:
    """Return about the orthogonal factor U Vᵀ of matrices U S Vᵀ ``(..., out, in)``, by Newton–Schulz iteration."""
    tall = matrices.shape[-2] > matrices.shape[-1]
    wide = (matrices.mT if tall else matrices).reshape(-1, *sorted(matrices.shape[-2:]))
    x = wide / wide.norm(dim=(-2, -1), keepdim=True).clamp(min=1e-30)
    first, third, fifth = _QUINTIC
    for _ in range(_ROUNDS):
        gram = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=third, alpha=fifth), x, beta=first)
    found: Tensor = x.mT if tall else x
    return found.reshape(matrices.shape)
