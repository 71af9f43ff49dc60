"""Distances that a structure should have: equilibrium bonds and angles of a System, room for everything else."""

import math
from dataclasses import dataclass
from typing import Any

import openmm
import torch
from torch import Tensor

from boltzkit.errors import UserError
from boltzkit.molecule.graph import bond_pairs

__all__ = ["Geometry", "distances", "equilibrium_geometry"]

# Closest approach in nm of atoms three bonds apart, of atoms further apart with a hydrogen, and of heavy ones.
_ROOM = (0.21, 0.24, 0.30)


@dataclass(frozen=True)
class Geometry:
    """What is known of the distances between atoms.

    Attributes:
        known: pairs at a known distance, one or two bonds apart, symmetric, ``(atoms, atoms)``, bool.
        distance: that distance, and for all other pairs their closest approach, nm, ``(atoms, atoms)``.
    """

    known: Tensor
    distance: Tensor

    def shortfall(self, positions: Tensor) -> Tensor:
        """Return how far distances are off: d − d₀ where known, min(d − d₀, 0) elsewhere, ``(atoms, atoms)``."""
        off = distances(positions) - self.distance
        return torch.where(self.known, off, off.clamp(max=0.0))

    def with_trans(self, rows: Tensor) -> "Geometry":
        """Return a geometry in which the dihedrals of rows of four atoms are trans, by their end-to-end distance."""
        known, distance = self.known.clone(), self.distance.clone()
        i, j, k, m = rows.T
        first, middle, last = distance[i, j], distance[j, k], distance[k, m]
        # Along the middle bond, and across it on opposite sides.
        before = (first**2 + middle**2 - distance[i, k] ** 2) / (2 * middle)
        after = (last**2 + middle**2 - distance[j, m] ** 2) / (2 * middle)
        across = (first**2 - before**2).sqrt() + (last**2 - after**2).sqrt()
        known[i, m] = known[m, i] = True
        distance[i, m] = distance[m, i] = ((middle - before - after) ** 2 + across**2).sqrt()
        return Geometry(known, distance)


def distances(positions: Tensor) -> Tensor:
    """Return the distance of every pair, ``(atoms, dims) -> (atoms, atoms)``."""
    # The offset keeps the gradient finite where two atoms coincide, on the diagonal above all.
    return ((positions[:, None] - positions[None]).square().sum(-1) + 1e-12).sqrt()


def equilibrium_geometry(topology: Any, system: Any, source: str) -> Geometry:
    """Read bond lengths and angles from a System's harmonic terms and constraints."""
    lengths = _bond_lengths(system)
    bonds = [(a, b) for a, b in bond_pairs(topology).tolist()]
    unknown = [pair for pair in bonds if pair not in lengths]
    if unknown:
        a, b = unknown[0]
        raise UserError(
            f"{source}: the force field gives no harmonic length for the bond of atoms {a + 1} and {b + 1}, so no "
            "structure can be built from it: load one from a file."
        )
    # Constraints and Urey-Bradley terms give distances two bonds apart as well; angles come before them.
    across = {
        _sorted(a, c): _third_side(lengths[_sorted(a, b)], lengths[_sorted(b, c)], angle)
        for a, b, c, angle in _angles(system)
    }
    return _with_room(topology, bonds, {**lengths, **across, **{pair: lengths[pair] for pair in bonds}})


def _third_side(first: float, second: float, angle: float) -> float:
    return math.sqrt(first**2 + second**2 - 2 * first * second * math.cos(angle))


def _with_room(
    topology: Any, bonds: list[tuple[int, int]], lengths: dict[tuple[int, int], float]
) -> Geometry:
    heavy = torch.tensor([atom.element.atomic_number > 1 for atom in topology.atoms()])
    n = len(heavy)
    steps = torch.eye(n)
    for a, b in bonds:
        steps[a, b] = steps[b, a] = 1
    near = torch.linalg.matrix_power(steps, 3) > 0
    both_heavy = heavy[:, None] & heavy[None, :]
    distance = torch.where(near, _ROOM[0], torch.where(both_heavy, _ROOM[2], _ROOM[1])).double()
    distance.fill_diagonal_(0.0)
    known = torch.zeros(n, n, dtype=torch.bool)
    for (a, b), length in lengths.items():
        known[a, b] = known[b, a] = True
        distance[a, b] = distance[b, a] = length
    return Geometry(known, distance)


def _bond_lengths(system: Any) -> dict[tuple[int, int], float]:
    rows = [system.getConstraintParameters(i) for i in range(system.getNumConstraints())]
    for force in system.getForces():
        if isinstance(force, openmm.HarmonicBondForce):
            rows += [force.getBondParameters(i)[:3] for i in range(force.getNumBonds())]
    return {_sorted(a, b): length._value for a, b, length in rows}


def _angles(system: Any) -> list[tuple[int, int, int, float]]:
    rows = []
    for force in system.getForces():
        if isinstance(force, openmm.HarmonicAngleForce):
            for i in range(force.getNumAngles()):
                a, b, c, angle, _ = force.getAngleParameters(i)
                rows.append((a, b, c, float(angle._value)))
    return rows


def _sorted(a: int, b: int) -> tuple[int, int]:
    return (a, b) if a < b else (b, a)
