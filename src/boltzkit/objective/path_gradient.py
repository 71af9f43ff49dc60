"""Path-gradient forward KL (Vaitl et al., 2023): forward KL seen as a reverse KL in latent space."""

from dataclasses import dataclass

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
    a density while training (running batch statistics). Costs about twice a forward-KL step.
    """

    total: Total = local_total

    def __call__(
        self, flow: Flow, x: Tensor, gradient: Tensor, weights: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Return the loss, whose value is the forward KL and whose gradient is the path gradient, and log q(x).

        Args:
            flow: the model.
            x: samples of the target, ``(..., batch, dim)``.
            gradient: ∂u/∂x at x, same shape.
            weights: optional importance weights, ``(..., batch)``.
        """
        z, log_det = flow.bijection.inverse(x)
        log_prob = flow.base.log_prob(z) + log_det
        path = (self._latent_force(flow, z, gradient) * z).sum(-1)
        keep = log_prob != -torch.inf
        surrogate = weighted_mean(path, weights, keep=keep, total=self.total)
        value = ForwardKL(self.total)(log_prob.detach(), weights)
        return surrogate - surrogate.detach() + value, log_prob

    @staticmethod
    def _latent_force(flow: Flow, z: Tensor, gradient: Tensor) -> Tensor:
        """Return ∂/∂z (log p₀ − log q₀) at fixed parameters."""
        with flow.evaluating(), torch.enable_grad():
            leaf = z.detach().requires_grad_()
            x, log_det = flow.bijection.transform(leaf)
            # −∂u/∂x · x has the gradient of −u(T(z)) in z without another energy evaluation.
            latent = log_det - flow.base.log_prob(leaf) - (gradient.detach() * x).sum(-1)
            (force,) = torch.autograd.grad(latent.sum(), leaf)
        return force
