"""Sizes and distances of whole configurations, ``(n, atoms, 3)`` nm to ``(n,)``, in float64."""

import torch
from torch import Tensor

from boltzkit.errors import UserError

__all__ = ["distance", "radius_of_gyration", "rmsd"]


def rmsd(x: Tensor, reference: Tensor) -> Tensor:
    r"""Return the root mean square deviation after the best shift and rotation (Kabsch, 1976).

    $$\mathrm{rmsd}^2 = \frac1N\Big(\sum_i |x_i|^2 + |r_i|^2 - 2(\sigma_1 + \sigma_2 \pm \sigma_3)\Big)$$

    with both structures centred, σ the singular values of $\sum_i x_i r_i^\top$ and the sign of its determinant, so
    that mirror images stay apart. Configurations that are not finite give NaN.

    Args:
        x: configurations, ``(n, atoms, 3)``.
        reference: one structure, ``(atoms, 3)``.
    """
    if x.shape[-2:] != reference.shape:
        raise UserError(
            f"A deviation needs as many atoms on both sides, not {tuple(x.shape[-2:])} and {tuple(reference.shape)}."
        )
    x, reference = _centred(x), _centred(reference)
    finite = x.isfinite().flatten(-2).all(-1)
    # LAPACK refuses a whole batch for one matrix that is not finite.
    covariance = torch.where(finite[..., None, None], x.mT @ reference, 0.0)
    singular = torch.linalg.svdvals(covariance)
    overlap = singular[..., 0] + singular[..., 1] + torch.linalg.det(covariance).sign() * singular[..., 2]
    squares = x.square().sum((-2, -1)) + reference.square().sum()
    mean: Tensor = (squares - 2 * overlap).clamp(min=0) / len(reference)
    return mean.sqrt()


def radius_of_gyration(x: Tensor, masses: Tensor) -> Tensor:
    r"""Return $\sqrt{\sum_i m_i |x_i - \bar x|^2 / \sum_i m_i}$ about the centre of mass.

    Args:
        x: configurations, ``(n, atoms, 3)``.
        masses: ``(atoms,)``, in any unit.
    """
    share = (masses.double() / masses.double().sum()).unsqueeze(-1)
    x = x.double()
    apart = x - (share * x).sum(-2, keepdim=True)
    mean: Tensor = (share * apart.square()).sum((-2, -1))
    return mean.sqrt()


def distance(x: Tensor, first: int, second: int) -> Tensor:
    """Return the distance of two atoms."""
    apart = x[..., first, :].double() - x[..., second, :].double()
    return apart.square().sum(-1).sqrt()


def _centred(x: Tensor) -> Tensor:
    x = x.double()
    return x - x.mean(-2, keepdim=True)
