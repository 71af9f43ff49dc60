"""The paper's energy regularisation: overlapping atoms get large energies that grow only logarithmically."""

import torch
from torch import Tensor

from boltzkit.errors import UserError

__all__ = ["regularise"]


def regularise(energy: Tensor, high: float = 1e8, maximum: float = 1e20) -> Tensor:
    r"""Flatten reduced energies above ``high`` and cap them above ``maximum`` (Eq. energy_reg of the paper).

    $$E_\mathrm{reg}(E) = \begin{cases}
      E, & E \le E_\mathrm{high} \\
      \log(E - E_\mathrm{high} + 1) + E_\mathrm{high}, & E_\mathrm{high} < E \le E_\mathrm{max} \\
      \log(E_\mathrm{max} - E_\mathrm{high} + 1) + E_\mathrm{high}, & E > E_\mathrm{max}
    \end{cases}$$

    +inf lies above ``maximum`` and gets the plateau; NaN stays NaN, for a failed evaluation has no energy.
    The derivative ∂E_reg/∂E is 1, 1/(E − E_high + 1) and 0 on the three branches, finite everywhere; that the
    energy's own derivative is finite is up to the energy. In float32 the numbers near 1e8 are 8 apart, so
    there the middle branch comes in a few steps: regularise in float64.

    Args:
        energy: reduced energies of any shape.
        high: E_high, up to which energies stay as they are.
        maximum: E_max, from which on they are all alike.

    >>> regularise(torch.tensor([1.0, 11.0, torch.inf], dtype=torch.float64), high=10.0, maximum=11.0)
    tensor([ 1.0000, 10.6931, 10.6931], dtype=torch.float64)
    """
    if not high <= maximum < float("inf"):
        raise UserError(f"Energy regularisation needs high ≤ maximum < inf, not {high:g} and {maximum:g}.")
    # Clamped from both sides, the logarithm and its derivative stay finite also where the branch is not
    # taken: a NaN there would reach the gradient through 0 · NaN.
    excess = (energy - high).clamp(0.0, maximum - high)
    return torch.where(energy > high, torch.log1p(excess) + high, energy)
