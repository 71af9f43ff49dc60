"""Affine coupling (Dinh et al., 2017)."""

import torch
from torch import Tensor

from boltzkit.coordinates.bijection import Bijection
from boltzkit.flow.conditioner import Conditioner

__all__ = ["AffineCoupling"]


class AffineCoupling(Bijection):
    r"""Scale and shift some dims by functions of the others, which pass through.

    $$x_b = z_b \, e^{s(z_a)} + t(z_a), \qquad \log|\partial x/\partial z| = \textstyle\sum s(z_a)$$

    The log-scale is bounded, s = c·tanh(ŝ/c): one extreme latent cannot overflow the exponential.

    Args:
        given: indices a that condition and pass through.
        changed: indices b that are transformed.
        conditioner: network ``(..., len(given)) -> (..., 2·len(changed))``.
        max_log_scale: the bound c on |s|.
    """

    given: Tensor
    changed: Tensor
    order: Tensor

    def __init__(
        self,
        given: list[int],
        changed: list[int],
        conditioner: Conditioner,
        max_log_scale: float = 3.0,
    ) -> None:
        super().__init__()
        # Fixed by the architecture, so not part of a checkpoint.
        self.register_buffer("given", torch.tensor(given), persistent=False)
        self.register_buffer("changed", torch.tensor(changed), persistent=False)
        self.register_buffer("order", torch.argsort(torch.tensor(given + changed)), persistent=False)
        self.conditioner = conditioner
        self.max_log_scale = max_log_scale

    def transform(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """Return ``(x, Σ s)``."""
        given, changed = z.index_select(-1, self.given), z.index_select(-1, self.changed)
        log_scale, shift = self._scale_and_shift(given)
        return self._join(given, changed * log_scale.exp() + shift), log_scale.sum(-1)

    def inverse(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return ``(z, −Σ s)``."""
        given, changed = x.index_select(-1, self.given), x.index_select(-1, self.changed)
        log_scale, shift = self._scale_and_shift(given)
        return self._join(given, (changed - shift) * (-log_scale).exp()), -log_scale.sum(-1)

    def _scale_and_shift(self, given: Tensor) -> tuple[Tensor, Tensor]:
        raw, shift = self.conditioner(given).chunk(2, dim=-1)
        return self.max_log_scale * torch.tanh(raw / self.max_log_scale), shift

    def _join(self, given: Tensor, changed: Tensor) -> Tensor:
        return torch.cat([given, changed], dim=-1).index_select(-1, self.order)
