"""Path-gradient forward KL (Vaitl et al., 2023): forward KL seen as a reverse KL in latent space."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from boltzkit.flow import Flow
from boltzkit.objective.forward_kl import ForwardKL
from boltzkit.objective.mean import Total, local_total, weighted_mean

__all__ = ["PathGradientForwardKL"]


@dataclass(frozen=True)
class PathGradientForwardKL:
    r"""Forward KL with the gradient estimator that vanishes sample by sample at q = p.

    With x ~ p and z = T⁻¹(x), the latent law of the data is $\log p_0(z) = -u(T(z)) + \log|\partial T/\partial z|$
    up to log Z, and KL(p‖q) = KL(p₀‖q₀). Dropping the score of p₀, whose expectation is zero, leaves

    $$\nabla_\theta = \mathbb E\left[ \frac{\partial}{\partial z}\bigl(\log p_0(z) - \log q_0(z)\bigr)
    \cdot \frac{\partial z_\theta(x)}{\partial\theta} \right].$$

    The target enters through its gradient at the data, which is a label: no evaluation per step. The flow must be
    a density while training (running batch statistics).

    Costs one ``transform`` and its gradient in z beside a forward-KL step: two steps for couplings. An autoregressive
    flow goes through its tokens one by one there and back: the operations of two steps in smaller pieces, which took
    the time of 2.3 to 3.1 steps on one CPU thread.

    Positions may stand anywhere in space: where the flow puts a molecule elsewhere than the data do, as internal
    coordinates do, the gradient is turned into the flow's frame. This takes an energy that does not depend on it.
    """

    own_samples: ClassVar[bool] = False
    energy_gradients: ClassVar[bool] = True
    total: Total = local_total

    def __call__(
        self, flow: Flow, x: Tensor, gradient: Tensor, weights: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Return the loss, whose value is the forward KL and whose gradient is the path gradient, and log q(x).

        Args:
            flow: the model.
            x: samples of the target, ``(..., batch, *event)``.
            gradient: ∂u/∂x at x, same shape; of augmented data that of the augmented energy.
            weights: optional importance weights, ``(..., batch)``.
        """
        path, log_prob = self.per_sample(flow, x, gradient)
        return self.combined(path, log_prob, weights), log_prob

    def per_sample(self, flow: Flow, x: Tensor, gradient: Tensor) -> tuple[Tensor, Tensor]:
        """Return force · z, whose gradient in the parameters is the path gradient of a sample, and log q(x)."""
        z, log_det = flow.bijection.inverse(x)
        log_prob = flow.corrected(x, flow.base.log_prob(z) + log_det)
        keep = log_prob != -torch.inf
        # A force that is not finite must not reach the gradient of a sample that is left out: 0 · NaN is NaN.
        force = torch.where(keep.unsqueeze(-1), _latent_force(flow, z, x, gradient), 0.0)
        return (force * z).sum(-1), log_prob

    def combined(self, path: Tensor, log_prob: Tensor, weights: Tensor | None = None) -> Tensor:
        """Return the loss from what `per_sample` gives."""
        surrogate = weighted_mean(path, weights, keep=log_prob != -torch.inf, total=self.total)
        value = ForwardKL(self.total)(log_prob.detach(), weights)
        return surrogate - surrogate.detach() + value


def _latent_force(flow: Flow, z: Tensor, x: Tensor, gradient: Tensor) -> Tensor:
    """Return ∂/∂z (log p₀ − log q₀) at fixed parameters."""
    event = tuple(range(-len(flow.event_shape), 0))
    with flow.evaluating(), _frozen(flow), torch.enable_grad():
        leaf = z.detach().requires_grad_()
        placed, log_det = flow.bijection.transform(leaf)
        if len(event) == 2:
            gradient = _turned(gradient, x, placed)
        # −∂u/∂x · x has the gradient of −u(T(z)) in z without another energy evaluation.
        latent = log_det - flow.base.log_prob(leaf) - (gradient.detach() * placed).sum(event)
        (force,) = torch.autograd.grad(latent.sum(), leaf)
    return force


@contextmanager
def _frozen(flow: Flow) -> Iterator[None]:
    """Let parameters want no gradient: a bijection with a hand-written one would compute it for nothing."""
    wanted = [parameter for parameter in flow.parameters() if parameter.requires_grad]
    for parameter in wanted:
        parameter.requires_grad_(False)
    try:
        yield
    finally:
        for parameter in wanted:
            parameter.requires_grad_(True)


@torch.no_grad()
def _turned(gradient: Tensor, x: Tensor, placed: Tensor) -> Tensor:
    """Turn vectors on atoms by the rotation that lays x on the same molecules placed elsewhere (Kabsch, 1976)."""
    first, second = (points - points.mean(-2, keepdim=True) for points in (x, placed))
    overlap = first.mT @ second
    finite = overlap.isfinite().all(-1).all(-1)[..., None, None]
    left, _, right = torch.linalg.svd(torch.where(finite, overlap, torch.eye(3).to(overlap)))
    # The third direction goes with the sign that makes it a rotation: flat molecules allow the mirror image too.
    sign = torch.linalg.det(left @ right).sign()
    left = torch.cat([left[..., :2], left[..., 2:] * sign[..., None, None]], dim=-1)
    turned: Tensor = gradient @ left @ right
    return turned
