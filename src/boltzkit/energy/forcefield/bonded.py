"""Bonds, angles and torsions."""

import math
from collections import defaultdict
from collections.abc import Sequence

import torch
from torch import Tensor

from boltzkit.energy.forcefield.term import Geometry, Term, difference_matrix

__all__ = ["HarmonicAngles", "HarmonicBonds", "TorsionSeries", "angle", "cross", "torsion"]

_TINY = 1e-30
"""Keeps 1/|v| finite where vectors are parallel; far below the square of any rounding error that matters."""


def cross(a: Tensor, b: Tensor) -> Tensor:
    """Return the cross product along the first axis, ``(3, ...)``."""
    return torch.stack(
        [
            a[1] * b[2] - a[2] * b[1],
            a[2] * b[0] - a[0] * b[2],
            a[0] * b[1] - a[1] * b[0],
        ]
    )


def angle(a: Tensor, b: Tensor) -> Tensor:
    """Return the angle between vectors, ``(3, ...) -> (...)``, accurate near 0 and π where acos is not."""
    normal = cross(a, b)
    return torch.atan2((normal * normal).sum(0).add(_TINY).sqrt(), (a * b).sum(0))


def torsion(b1: Tensor, b2: Tensor, b3: Tensor) -> tuple[Tensor, Tensor]:
    """Return cos φ and sin φ of the torsion along three successive bond vectors (IUPAC sign)."""
    n1, n2 = cross(b1, b2), cross(b2, b3)
    scale = torch.rsqrt((n1 * n1).sum(0) * (n2 * n2).sum(0) + _TINY)
    length = (b2 * b2).sum(0).sqrt()
    return (n1 * n2).sum(0) * scale, length * (b1 * n2).sum(0) * scale


class HarmonicBonds(Term):
    """E = Σ ½ k (r − r₀)²."""

    matrix: Tensor
    length: Tensor
    stiffness: Tensor

    def __init__(self, bonds: Sequence[tuple[int, int, float, float]], n_atoms: int) -> None:
        """Take (i, j, r₀ in nm, k in kJ/mol/nm²) of each bond."""
        super().__init__()
        self.atoms = torch.tensor([row[:2] for row in bonds])
        self.constant("matrix", difference_matrix([(i, j) for i, j, _, _ in bonds], n_atoms))
        self.constant("length", [[r0] for _, _, r0, _ in bonds])
        self.constant("stiffness", [[k] for _, _, _, k in bonds])

    def forward(self, geometry: Geometry) -> Tensor:
        """Sum over bonds."""
        bond = torch.matmul(self.matrix, geometry.x)
        stretch = (bond * bond).sum(0).sqrt() - self.length
        return (0.5 * self.stiffness * stretch * stretch).sum(0)


class HarmonicAngles(Term):
    """E = Σ ½ k (θ − θ₀)²."""

    first: Tensor
    second: Tensor
    equilibrium: Tensor
    stiffness: Tensor

    def __init__(self, angles: Sequence[tuple[int, int, int, float, float]], n_atoms: int) -> None:
        """Take (i, j, k, θ₀ in rad, k in kJ/mol/rad²) of each angle with apex j."""
        super().__init__()
        self.atoms = torch.tensor([row[:3] for row in angles])
        self.constant("first", difference_matrix([(j, i) for i, j, _, _, _ in angles], n_atoms))
        self.constant("second", difference_matrix([(j, k) for _, j, k, _, _ in angles], n_atoms))
        self.constant("equilibrium", [[theta] for *_, theta, _ in angles])
        self.constant("stiffness", [[k] for *_, k in angles])

    def forward(self, geometry: Geometry) -> Tensor:
        """Sum over angles."""
        theta = angle(torch.matmul(self.first, geometry.x), torch.matmul(self.second, geometry.x))
        bend = theta - self.equilibrium
        return (0.5 * self.stiffness * bend * bend).sum(0)


class TorsionSeries(Term):
    r"""All torsion terms as one Fourier series per quadruple of atoms.

    $$E = \sum_q \sum_n a_{qn} \cos n\varphi_q + b_{qn} \sin n\varphi_q$$

    Terms on the same four atoms merge, and cos nφ comes from cos φ and sin φ by the addition theorem: no
    trigonometric function is evaluated.
    """

    first: Tensor
    middle: Tensor
    last: Tensor
    cosine: Tensor
    sine: Tensor

    def __init__(
        self, series: dict[tuple[int, int, int, int], dict[int, tuple[float, float]]], n_atoms: int
    ) -> None:
        """Take, for each quadruple of atoms, n -> (a_n, b_n) in kJ/mol."""
        super().__init__()
        quadruples = list(series)
        self.atoms = torch.tensor(quadruples)
        order = max((n for terms in series.values() for n in terms), default=0)
        for name, (i, j) in {"first": (0, 1), "middle": (1, 2), "last": (2, 3)}.items():
            self.constant(name, difference_matrix([(q[i], q[j]) for q in quadruples], n_atoms))
        coefficients = [[series[q].get(n, (0.0, 0.0)) for q in quadruples] for n in range(order + 1)]
        table = torch.tensor(coefficients, dtype=torch.float64).reshape(order + 1, len(quadruples), 2)
        self.constant("cosine", table[..., 0].unsqueeze(-1))
        self.constant("sine", table[..., 1].unsqueeze(-1))

    def forward(self, geometry: Geometry) -> Tensor:
        """Sum over quadruples and orders."""
        x = geometry.x
        c1, s1 = torsion(
            torch.matmul(self.first, x), torch.matmul(self.middle, x), torch.matmul(self.last, x)
        )
        energy = self.cosine[0] + self.cosine[1] * c1 + self.sine[1] * s1
        c, s = c1, s1
        for n in range(2, self.cosine.shape[0]):
            c, s = c * c1 - s * s1, s * c1 + c * s1
            energy = energy + self.cosine[n] * c + self.sine[n] * s
        return energy.sum(0)

    @staticmethod
    def periodic(
        torsions: Sequence[tuple[int, int, int, int, int, float, float]],
    ) -> dict[tuple[int, int, int, int], dict[int, tuple[float, float]]]:
        """Return the series of E = k (1 + cos(nφ − φ₀)) given as (i, j, k, l, n, φ₀, k)."""
        series: dict[tuple[int, int, int, int], dict[int, tuple[float, float]]] = defaultdict(dict)
        for i, j, k, m, n, phase, height in torsions:
            _add(series[i, j, k, m], 0, height, 0.0)
            _add(series[i, j, k, m], n, height * math.cos(phase), height * math.sin(phase))
        return series

    @staticmethod
    def ryckaert_bellemans(
        torsions: Sequence[tuple[int, int, int, int, Sequence[float]]],
    ) -> dict[tuple[int, int, int, int], dict[int, tuple[float, float]]]:
        """Return the series of E = Σ C_n cosⁿψ, ψ = φ − π, given as (i, j, k, l, [C₀ … C₅])."""
        series: dict[tuple[int, int, int, int], dict[int, tuple[float, float]]] = defaultdict(dict)
        for i, j, k, m, coefficients in torsions:
            for power, coefficient in enumerate(coefficients):
                # cosᵖφ = 2^−p Σ binom(p, r) cos((p − 2r)φ), and cos ψ = −cos φ.
                for r in range(power + 1):
                    value = coefficient * (-1) ** power * math.comb(power, r) / 2**power
                    _add(series[i, j, k, m], abs(power - 2 * r), value, 0.0)
        return series


def _add(terms: dict[int, tuple[float, float]], n: int, cosine: float, sine: float) -> None:
    a, b = terms.get(n, (0.0, 0.0))
    terms[n] = (a + cosine, b + sine)
