"""Internal coordinates of a molecule as a bijection from the unit box."""

import math
from copy import deepcopy
from typing import Any, Self

import torch
from torch import Tensor

from boltzkit.coordinates.bijection import Bijection
from boltzkit.coordinates.config import CoordinatesConfig
from boltzkit.coordinates.constrained import CONSTRAINT_TOLERANCE, constrained_lengths
from boltzkit.coordinates.labels import atom_labels
from boltzkit.coordinates.placement import Placement
from boltzkit.coordinates.sides import Sides, held_sides
from boltzkit.coordinates.support import SupportReport, support_report
from boltzkit.coordinates.windows import SHORTEST, STRAIGHT, fitted_windows, reference_windows
from boltzkit.coordinates.zmatrix import build_zmatrix
from boltzkit.errors import UserError
from boltzkit.molecule import Constraints, Molecule

__all__ = ["PAPER_NLL_OFFSET", "InternalCoordinates", "rigid_body_log_volume"]

PAPER_NLL_OFFSET = 2 * math.log(2 * math.pi)
"""What the paper's negative log-likelihoods of internal-coordinate flows contain beyond ours: 2 log 2π = 3.676."""


def rigid_body_log_volume(n_atoms: int) -> float:
    r"""Return $\log Z_{X_0} - \log Z_\mathrm{IC}$: from the measure of internal coordinates to centred Cartesian ones.

    $$Z_{X_0} = 8\pi^2 N^{-3/2} Z_\mathrm{IC}$$

    Two atoms do not turn about their own axis: 4π in place of 8π².
    """
    turns = 8 * math.pi**2 if n_atoms > 2 else 4 * math.pi
    return math.log(turns) - 1.5 * math.log(n_atoms)


class InternalCoordinates(Bijection):
    r"""The map from the unit box to positions through bond lengths b, angles θ and torsions τ.

    Each coordinate is stretched linearly from [0, 1] to its window. With windows of width w and all N − 1 bonds and
    N − 2 angles, constrained ones too,

    $$\log\left|\frac{\partial x}{\partial u}\right| = \sum 2\log b + \sum\log\sin\theta + \sum\log w$$

    in nm and rad. This is the volume of *shapes*: where a molecule is and how it is turned is not a coordinate, and
    the constant that it would add is left out. `rigid_body_log_volume` gives it; the paper's convention differs by
    `PAPER_NLL_OFFSET`. With constrained bonds it is the density of stiff bonds, without the Fixman term.

    ``inverse`` never moves a configuration into the support: bonds, angles and torsions beyond their windows, those on
    the wrong side too, give u outside [0, 1]; a constrained bond that is not at its length gives a log-determinant of
    −inf; coordinates that are not finite give NaN. ``support`` counts them.

    Positions come out with the first atom of the z-matrix at the origin, the second on the x-axis and the third in the
    xy-plane. All is computed in the precision of the input.

    Args:
        topology: OpenMM Topology: elements, bonds, names.
        positions: the reference structure, best the minimised one, ``(atoms, 3)`` nm.
        constraints: distances held fixed; each must be a bond of the z-matrix. They are no dims of the box.
        config: widths of windows and what is held to one side.
        name: how messages call the molecule.

    Attributes:
        zmatrix: the references of every atom.
        n_atoms: number of atoms.
        dim: number of free coordinates: bonds, then angles, then torsions.
        kinds: ``bond``, ``angle`` or ``torsion``, for each dim.
        labels: names for people, for each dim: ``bond ALA2:CA-CB``, ``φ ALA2``.
        half_range: dims of the torsions that are held to half the circle.
        circular: whether a dim is a torsion with the full circle, so that 0 and 1 are the same, ``(dim,)``.
        low: lower ends of the windows, nm or rad, ``(dim,)``; kept in checkpoints.
        high: upper ends.
        unheld: tetrahedral centres whose handedness no torsion holds.
    """

    circular: Tensor
    low: Tensor
    high: Tensor
    lengths: Tensor
    free_then_fixed: Tensor
    in_rows: Tensor

    def __init__(
        self,
        topology: Any,
        positions: Tensor,
        constraints: Constraints | None = None,
        config: CoordinatesConfig | None = None,
        name: str = "the molecule",
    ) -> None:
        super().__init__()
        positions = positions.detach().to("cpu", torch.float64)
        config = config or CoordinatesConfig()
        self.name = name
        self.zmatrix = build_zmatrix(topology, positions, name)
        self.n_atoms = self.zmatrix.n_atoms
        self._placement = Placement(self.zmatrix)
        fixed = constrained_lengths(self.zmatrix, constraints, name)
        free = [place for place in range(self.n_atoms - 1) if place not in fixed]
        bonds, angles, torsions = (q[:, 0] for q in self._placement.measure(positions.T[..., None]))
        sides = held_sides(topology, self.zmatrix, torsions.tolist(), config)
        low, high = reference_windows(bonds[free], angles, len(torsions), sides.held, config)
        self._sizes = len(free), len(angles), len(torsions)
        self._describe(topology, [*free, *fixed], sides)
        order = torch.tensor([*free, *fixed], dtype=torch.int64)
        lengths = torch.tensor(list(fixed.values()), dtype=torch.float64)
        self.register_buffer("low", low)
        self.register_buffer("high", high)
        self.register_buffer("lengths", lengths, persistent=False)
        self.register_buffer("free_then_fixed", order, persistent=False)
        self.register_buffer("in_rows", torch.argsort(order), persistent=False)

    def _describe(self, topology: Any, bonds: list[int], sides: Sides) -> None:
        """Name the dims: bonds in the order given, the free ones first, then angles and torsions."""
        rows = self.zmatrix.rows.tolist()
        n_free, n_angles, _ = self._sizes
        pairs = [rows[place + 1][:2] for place in bonds]
        self.labels = atom_labels(topology, [*pairs[:n_free], *(row[:3] for row in rows[2:]), *rows[3:]])
        self._fixed_labels = atom_labels(topology, pairs[n_free:])
        self.unheld = atom_labels(topology, [[centre] for centre in sides.unheld])
        self.kinds = tuple(
            kind
            for kind, size in zip(("bond", "angle", "torsion"), self._sizes, strict=True)
            for _ in range(size)
        )
        self.dim = len(self.kinds)
        if not self.dim:
            raise UserError(f"{self.name}: all its coordinates are constrained, so nothing is left to model.")
        self.half_range = tuple(sorted(n_free + n_angles + torsion for torsion in sides.held))
        circular = [kind == "torsion" and dim not in self.half_range for dim, kind in enumerate(self.kinds)]
        self.register_buffer("circular", torch.tensor(circular), persistent=False)

    @classmethod
    def of(cls, molecule: Molecule, config: CoordinatesConfig | None = None) -> Self:
        """Return the internal coordinates of a molecule around its minimised structure, with its constraints."""
        return cls(molecule.topology, molecule.positions, molecule.constraints, config, molecule.name)

    def transform(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """Map the unit box to positions: ``(..., dim) -> (..., atoms, 3)`` nm and log|∂x/∂u| ``(...)``."""
        if z.shape[-1] != self.dim:
            raise UserError(f"{self.name} has {self.dim} internal coordinates, not {z.shape[-1]}.")
        low, width = self._columns(z)
        values = low + width * z.reshape(-1, self.dim).T.contiguous()
        bonds, angles, torsions = torch.split(values, list(self._sizes))
        x = self._placement.place(self._with_fixed(bonds), angles, torsions)
        log_det = self._log_volume(bonds, angles)
        return x.permute(2, 1, 0).reshape(*z.shape[:-1], self.n_atoms, 3), log_det.reshape(z.shape[:-1])

    def inverse(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Map positions to the unit box: ``(..., atoms, 3)`` nm to ``(..., dim)`` and log|∂u/∂x| ``(...)``."""
        bonds, fixed, angles, torsions = self._measure(x)
        low, width = self._columns(x)
        u = (torch.cat([bonds, angles, torsions]) - low) / width
        # Beyond every window the volume does not matter, but it must not be infinite or undefined: with the −inf of
        # a base distribution it would make NaN.
        log_det = -self._log_volume(bonds.clamp(min=SHORTEST), angles.clamp(STRAIGHT, math.pi - STRAIGHT))
        off = ((fixed - self.lengths.to(x)[:, None]).abs() > CONSTRAINT_TOLERANCE).any(0)
        log_det = torch.where(off, -torch.inf, log_det)
        return u.T.reshape(*x.shape[:-2], self.dim), log_det.reshape(x.shape[:-2])

    def values(self, x: Tensor) -> Tensor:
        """Return the coordinates of the dims in nm and rad, ``(..., atoms, 3) -> (..., dim)``."""
        bonds, _, angles, torsions = self._measure(x)
        return torch.cat([bonds, angles, torsions]).T.reshape(*x.shape[:-2], self.dim)

    def support(self, x: Tensor) -> SupportReport:
        """Count the configurations ``(n, atoms, 3)`` that lie outside the support, by coordinate."""
        with torch.no_grad():
            bonds, fixed, angles, torsions = self._measure(x)
        lengths = self.lengths.to(x)
        return support_report(
            torch.cat([bonds, angles, torsions, fixed]).T,
            torch.cat([self.low.to(x), lengths - CONSTRAINT_TOLERANCE]),
            torch.cat([self.high.to(x), lengths + CONSTRAINT_TOLERANCE]),
            [*self.labels, *(f"constrained {label}" for label in self._fixed_labels)],
            [
                *("nm" if kind == "bond" else "rad" for kind in self.kinds),
                *("nm" for _ in self._fixed_labels),
            ],
        )

    def fit(self, x: Tensor, margin: float = 0.1, *, shrink: bool = False) -> Self:
        """Return coordinates whose windows contain data ``(n, atoms, 3)``; torsions keep theirs.

        Args:
            x: configurations, nm; ones that are not finite are passed over.
            margin: room beyond the data on each side, as a share of the range they cover.
            shrink: let windows become narrower than they are.
        """
        values = self.values(x.detach()).reshape(-1, self.dim).to(self.low)
        values = values[values.isfinite().all(-1)]
        if not len(values):
            raise UserError(f"{self.name}: no finite configuration to fit windows to.")
        low, high = fitted_windows(values, (self.low, self.high), self._sizes[:2], margin, shrink)
        if not (high > low).all():
            label = self.labels[int((high <= low).nonzero()[0])]
            raise UserError(
                f"{self.name}: {label} does not vary in the data, so no window can be fitted to it."
            )
        fitted = deepcopy(self)
        fitted.low, fitted.high = low, high
        return fitted

    def _measure(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return free bonds, fixed bonds, angles and torsions, ``(number, n)`` each."""
        if x.ndim < 2 or tuple(x.shape[-2:]) != (self.n_atoms, 3):
            raise UserError(
                f"{self.name}: configurations are of shape (..., {self.n_atoms}, 3), not {tuple(x.shape)}."
            )
        layout = x.reshape(-1, self.n_atoms, 3).permute(2, 1, 0).contiguous()
        # One infinite coordinate alone could still have finite angles.
        layout = torch.where(layout.isfinite().all(dim=1).all(dim=0), layout, torch.nan)
        bonds, angles, torsions = self._placement.measure(layout)
        ordered = bonds.index_select(0, self.free_then_fixed)
        return ordered[: self._sizes[0]], ordered[self._sizes[0] :], angles, torsions

    def _columns(self, like: Tensor) -> tuple[Tensor, Tensor]:
        return self.low.to(like)[:, None], (self.high - self.low).to(like)[:, None]

    def _with_fixed(self, bonds: Tensor) -> Tensor:
        if not len(self.lengths):
            return bonds
        fixed = self.lengths.to(bonds)[:, None].expand(-1, bonds.shape[1])
        return torch.cat([bonds, fixed]).index_select(0, self.in_rows)

    def _log_volume(self, bonds: Tensor, angles: Tensor) -> Tensor:
        """Return log|∂x/∂u| per configuration, of the free bonds and all angles."""
        constant = (self.high - self.low).log().sum() + 2 * self.lengths.log().sum()
        return 2 * bonds.log().sum(0) + angles.sin().log().sum(0) + constant.to(bonds)
