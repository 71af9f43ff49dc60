"""Scalar couplings that NMR measures, from torsions."""

import math

from torch import Tensor

__all__ = ["HN_HA", "karplus"]

HN_HA = (8.40, -1.36, 0.33)
"""A, B and C of ³J(HN,Hα) in Hz: Vögeli, Ying, Grishaev and Bax, J. Am. Chem. Soc. 129, 9377 (2007)."""


def karplus(phi: Tensor, coefficients: tuple[float, float, float] = HN_HA) -> Tensor:
    r"""Return ³J(HN,Hα) in Hz by Karplus' relation, for φ in radians of any shape.

    $$J = A\cos^2\theta + B\cos\theta + C, \qquad \theta = \phi - 60°$$

    What NMR measures is the average of J over the ensemble, not J of an average angle. Against measured couplings of
    proteins such relations err by about half a Hz, which no confidence interval of an average contains.

    Args:
        phi: backbone torsion of the residue.
        coefficients: A, B, C in Hz.
    """
    a, b, c = coefficients
    cosine = (phi - math.pi / 3).cos()
    return a * cosine.square() + b * cosine + c
