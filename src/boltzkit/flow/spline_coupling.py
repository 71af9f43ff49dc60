"""Spline coupling on the unit box (Durkan et al., 2019; circular dims: Rezende et al., 2020)."""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from boltzkit.coordinates.bijection import Bijection
from boltzkit.flow.fused_coupling import CouplingPlan, fused_coupling
from boltzkit.flow.native_layers import Given
from boltzkit.flow.native_spline import native_ready
from boltzkit.flow.relu_network import ReluNetwork
from boltzkit.flow.spline import Splines, n_parameters, spline, spline_inverse

__all__ = ["IDENTITY_BIAS", "SplineCoupling"]

IDENTITY_BIAS = math.log(math.exp(0.999) - 1)
"""Equal logits give equal bins, and 0.001 + softplus of this is a slope of 1: the identity."""


class SplineCoupling(Bijection):
    r"""Move some dims of the unit box by splines whose parameters are functions of the others, which pass through.

    The spline runs from data to latent, so that a density is evaluated directly; `transform` solves for its root, at
    the same cost. The network sees the cosine and sine of circular dims, then the other dims.

    Memory is laid out (dims, batch) throughout: values come in and go out as transposed views, and a chain of
    couplings never copies from one layout to the other.

    Args:
        given: dims that condition and pass through.
        changed: dims that are moved.
        seams: for each dim of the box, None if it is an interval; else it is a circle, and this is the place in [0, 1)
            where its spline starts and ends, the only point it cannot move. Seams at random places, others in every
            coupling, are the paper's random periodic shifts between couplings, seen in a frame that turns with them.
        hidden: widths of the network's hidden layers.
        n_bins: bins of each spline.
        compiled: use C++ kernels, where they can (float32 on a CPU; 4, 8 or 16 bins).
    """

    given_circular: Tensor
    given_linear: Tensor
    changed: Tensor
    seam: Tensor

    def __init__(
        self,
        given: Sequence[int],
        changed: Sequence[int],
        seams: Sequence[float | None],
        hidden: tuple[int, ...],
        n_bins: int = 8,
        compiled: bool = True,
    ) -> None:
        super().__init__()
        if sorted([*given, *changed]) != list(range(len(seams))):
            raise ValueError(f"Each of {len(seams)} dims is given or changed, not {given} and {changed}.")
        self.n_bins, self.compiled, self.torch_compiled = n_bins, compiled, False
        given_circular = [dim for dim in given if seams[dim] is not None]
        given_linear = [dim for dim in given if seams[dim] is None]
        changed_circular = [dim for dim in changed if seams[dim] is not None]
        changed_linear = [dim for dim in changed if seams[dim] is None]
        self.n_linear = len(changed_linear)
        self._keep("given_circular", given_circular)
        self._keep("given_linear", given_linear)
        self._keep("changed", changed_linear + changed_circular)
        seam = torch.tensor(
            [seams[dim] or 0.0 for dim in changed_linear + changed_circular], dtype=torch.float64
        )
        self.register_buffer("seam", seam.unsqueeze(1), persistent=False)
        n_out = n_parameters(n_bins, len(changed_linear), len(changed_circular))
        self.network = ReluNetwork(2 * len(given_circular) + len(given_linear), n_out, hidden)

    def _keep(self, name: str, dims: list[int]) -> None:
        # Fixed by the architecture, so not part of a checkpoint.
        self.register_buffer(name, torch.tensor(dims, dtype=torch.int64), persistent=False)

    def start(self, generator: torch.Generator) -> None:
        """Draw the starting parameters, with which the coupling is the identity."""
        self.network.start(generator, IDENTITY_BIAS)

    def transform(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """Return ``(x, log|∂x/∂z|)`` by the splines' roots."""
        return self._move(z, inverse=True)

    def inverse(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return ``(z, log|∂z/∂x|)`` by the splines."""
        return self._move(x, inverse=False)

    def _move(self, x: Tensor, *, inverse: bool) -> tuple[Tensor, Tensor]:
        rows = x.reshape(-1, x.shape[-1]).mT.contiguous()
        native = self.compiled and native_ready(rows, self.n_bins)
        moved, log_det = (self._fused if native else self._plain)(rows, inverse)
        return moved.mT.reshape(x.shape), log_det.reshape(x.shape[:-1])

    def _plain(self, rows: Tensor, inverse: bool) -> tuple[Tensor, Tensor]:
        features: Tensor = _Features.apply(rows, self.given_circular, self.given_linear)  # type: ignore[no-untyped-call]
        splines = Splines(self.n_bins, self.n_linear, self.seam, False, self.torch_compiled)
        map_ = spline_inverse if inverse else spline
        moved, log_det = map_(rows.index_select(0, self.changed), self.network(features), splines)
        return rows.index_copy(0, self.changed, moved), log_det

    def _fused(self, rows: Tensor, inverse: bool) -> tuple[Tensor, Tensor]:
        given = Given(self.given_circular, self.given_linear)
        seam = self.seam.to(rows.dtype)
        short = self.network.multiplies_short()
        plan = CouplingPlan(given, self.changed, seam, self.n_bins, self.n_linear, inverse, short)
        weights, biases = self.network.merged()
        return fused_coupling(rows, plan, weights, biases)


class _Features(torch.autograd.Function):
    """Cosine and sine of circular dims, then the others, clamped: what is far outside still gives finite gradients."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, circular: Tensor, linear: Tensor) -> Tensor:
        turns = rows.index_select(0, circular).clamp_(0.0, 1.0).mul_(2 * math.pi)
        others = rows.index_select(0, linear).clamp_(0.0, 1.0)
        features = torch.cat([turns.cos(), turns.sin(), others])
        ctx.save_for_backward(features, circular, linear)
        ctx.n_dims = len(rows)
        return features

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        features, circular, linear = ctx.saved_tensors
        n = len(circular)
        cosine, sine = features[:n], features[n : 2 * n]
        turns = torch.addcmul(cosine * grad[n : 2 * n], sine, grad[:n], value=-1).mul_(2 * math.pi)
        rows = grad.new_zeros(ctx.n_dims, grad.shape[1])
        return rows.index_copy_(0, circular, turns).index_copy_(0, linear, grad[2 * n :]), None, None
