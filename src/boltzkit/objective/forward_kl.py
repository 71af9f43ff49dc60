"""Forward KL: maximum likelihood on samples of the target."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from boltzkit.objective.mean import Total, local_total, weighted_mean

__all__ = ["ForwardKL"]


@dataclass(frozen=True)
class ForwardKL:
    r"""KL(p‖q) up to the target's entropy: $-\mathbb E_{x\sim p}[\log q(x)]$.

    Costs no energy evaluation. Samples outside the flow's support (log_prob = −inf) are left out; the training
    loop counts them. A NaN log_prob is a failure and makes the loss NaN.
    """

    own_samples: ClassVar[bool] = False
    energy_gradients: ClassVar[bool] = False
    total: Total = local_total

    def __call__(self, log_prob: Tensor, weights: Tensor | None = None) -> Tensor:
        """Return the mean negative log-likelihood, ``(..., batch) -> (...)``."""
        return weighted_mean(-log_prob, weights, keep=log_prob != -torch.inf, total=self.total)
